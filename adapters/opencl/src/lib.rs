//! OpenCL buffers of [opencl3] 0.12 as tensors, and tensors as OpenCL buffers, without a copy.
//!
//! ```no_run
//! use dlbridge::Tensor;
//! use dlbridge_opencl::{BufferExt, TensorExt, to_device};
//! use opencl3::command_queue::CommandQueue;
//! use opencl3::context::Context;
//! use opencl3::device::{CL_DEVICE_TYPE_ALL, Device, get_all_devices};
//!
//! let device = Device::new(get_all_devices(CL_DEVICE_TYPE_ALL)?[0]);
//! let context = Context::from_device(&device)?;
//! let queue = CommandQueue::create_default(&context, 0)?;
//!
//! let tensor = to_device(&Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]), &context, &queue)?; // a copy
//! let buffer = tensor.to_buffer::<f32>()?;          // the same memory, for a kernel
//! let column = tensor.transpose().index_axis(0, 1)?; // 2.0 and 4.0, without a copy
//! assert_eq!(column.byte_offset(), 4);               // the parent's buffer and a byte offset
//! assert_eq!(column.to_host(&queue)?.view::<f32>()?.to_vec(), [2.0, 4.0]);
//! let again = buffer.into_tensor([4])?;              // for any consumer of DLPack
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`BufferExt`] | buffers into tensors |
//! | [`TensorExt`] | tensors as buffers, or copied to the host |
//! | [`to_device`] | copies a host tensor into a new buffer |
//!
//! # Fields of the tensors
//!
//! - The **data** pointer is the `cl_mem`, as `dlpack.h` specifies. Each tensor and each returned `Buffer` holds a
//!   reference to it and releases it when dropped. A handle cannot be offset, so a slice of a tensor is the parent's
//!   `cl_mem` with a **byte offset**. OpenCL's own sub-buffers, which must begin at multiples of an alignment, are not
//!   needed.
//! - The **device** is the number of the context's first device among all devices of all platforms, in OpenCL's order.
//!   The specification leaves that open. A sub-device has the number of its parent.
//! - A buffer that kernels must not write (`CL_MEM_READ_ONLY`) is a **read-only** tensor. A tensor cannot express that
//!   kernels (`CL_MEM_WRITE_ONLY`) or the host must not read the buffer.
//! - **Host memory** under a buffer (`CL_MEM_USE_HOST_PTR`) must stay valid until the last reference is released,
//!   including the consumer's. The code that creates such a buffer must guarantee this.
//! - **Order.** A `cl_mem` does not record which commands use it. Before an export, the producer waits for its commands
//!   (`clFinish`), or agrees with the consumer on one in-order queue.
//!
//! The crate trusts that an opencl3 `Buffer` holds a live `cl_mem`, although the safe `Buffer::new` accepts any.
//!
//! TVM stores a pointer to its own structure where `dlpack.h` specifies the `cl_mem`; its tensors on this device must
//! not be imported.
//!
//! # Without OpenCL
//!
//! The crate opens the library on first use. Without it, functions return [`Error::OpenCl`] with the code -2000 and a
//! text that says so.

mod buffer;
mod error;
mod tensor;

pub use buffer::BufferExt;
pub use error::{Error, Result};
pub use tensor::{TensorExt, to_device};

/// Keeps the extension traits closed, so that methods can be added.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
