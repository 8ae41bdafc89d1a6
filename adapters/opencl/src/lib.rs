//! OpenCL buffers as tensors, and tensors as OpenCL buffers, without a copy, for [opencl3] 0.12.
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
//! let column = tensor.transpose().index_axis(0, 1)?; // 2.0 and 4.0, where they are
//! assert_eq!(column.byte_offset(), 4);               // a part is its parent and a byte offset
//! assert_eq!(column.to_host(&queue)?.view::<f32>()?.to_vec(), [2.0, 4.0]);
//! let again = buffer.into_tensor([4])?;              // for any consumer of DLPack
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`BufferExt`] | buffers into tensors |
//! | [`TensorExt`] | tensors as buffers, or copied to the host |
//! | [`to_device`] | a tensor of the host copied into a new buffer |
//!
//! # What such a tensor says
//!
//! - Its **data** is the `cl_mem`, as `dlpack.h` has it, and the owner holds a reference on it: what is handed
//!   out is retained, and released when it is dropped. Nobody can add to a handle, so a part of a tensor is
//!   the parent's `cl_mem` with a **byte offset**; OpenCL's own sub-buffers, which must begin at multiples of
//!   an alignment, are not needed.
//! - Its **device** is the number of the context's first device among all devices of all platforms, in
//!   the order in which OpenCL lists them. The specification leaves that open.
//!   A part of a device counts as the whole.
//! - A buffer that kernels must not write (`CL_MEM_READ_ONLY`) is a **read-only** tensor. That kernels must not read one
//!   (`CL_MEM_WRITE_ONLY`), or the host, a tensor cannot say.
//! - **Memory of the host** that a buffer was created over (`CL_MEM_USE_HOST_PTR`) must be there until the last
//!   reference is gone, a consumer's too: whoever creates such a buffer promises that.
//! - **Order.** A `cl_mem` does not tell which commands use it. Who exports a tensor has finished with it
//!   (`clFinish`), or has agreed with the consumer on one queue that runs in order.
//!
//! What opencl3 calls a buffer is believed to hold a `cl_mem` that lives, although its `Buffer::new` is safe and takes any.
//!
//! TVM puts a pointer to a structure of its own where `dlpack.h` wants the `cl_mem`; its tensors on this device
//! must not be imported.
//!
//! # Without OpenCL
//!
//! The library is opened when it is first used. Where there is none, functions return [`Error::OpenCl`] with the
//! code -2000, and so says its text.

mod buffer;
mod copy;
mod device;
mod error;
mod tensor;

pub use buffer::BufferExt;
pub use copy::to_device;
pub use error::{Error, Result};
pub use tensor::TensorExt;

/// Keeps the extension traits closed, so that they can grow.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
