//! [wgpu] 30 buffers as tensors, and tensors as wgpu buffers, without a copy.
//!
//! ```no_run
//! use dlbridge::Tensor;
//! use dlbridge_wgpu::{BufferExt, TensorExt, to_device};
//!
//! # fn crossing(device: &wgpu::Device, queue: &wgpu::Queue) -> Result<(), Box<dyn std::error::Error>> {
//! let tensor = to_device(&Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]), device)?; // a copy
//! let buffer = tensor.to_buffer()?;                  // the same memory, for a shader
//! let column = tensor.transpose().index_axis(0, 1)?; // 2.0 and 4.0, without a copy
//! assert_eq!(column.byte_offset(), 4);               // the parent's buffer and a byte offset
//! assert_eq!(column.to_host(device, queue)?.view::<f32>()?.to_vec(), [2.0, 4.0]);
//! let again = buffer.into_tensor::<f32>([4])?;       // for other users of this crate
//! # Ok(())
//! # }
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`BufferExt`] | buffers into tensors |
//! | [`TensorExt`] | tensors as buffers, or copied to the host |
//! | [`Binding`] | the range of a buffer that a shader binds for a slice of a tensor |
//! | [`to_device`] | copies a host tensor into a new buffer |
//!
//! # Fields of a tensor on `webgpu`
//!
//! - The **data** pointer is an address that identifies the [`wgpu::Buffer`], which the owner keeps. `dlpack.h`
//!   specifies a handle, and `webgpu.h` has one, `WGPUBuffer`, but the crate wgpu does not implement `webgpu.h`. So
//!   only this crate, in the same program, finds the buffer again by that address, which it never dereferences. It does
//!   so after any path: as a slice, shared, or by [`into_raw`](dlbridge::Tensor::into_raw) through another library. It
//!   refuses a tensor that another library made, whose data may be a `WGPUBuffer`: [`Error::Foreign`].
//! - A handle cannot be offset, so a slice of a tensor is the parent's buffer with a **byte offset**. A shader's
//!   binding must begin at a multiple of the device's `min_storage_buffer_offset_alignment`, 256 by default:
//!   [`TensorExt::binding`] splits the offset in two.
//! - The **device** has number 0: WebGPU does not number devices. Producer and consumer must agree on the
//!   [`wgpu::Device`]. This crate knows the device of the buffers that it made itself. For other buffers wgpu
//!   distinguishes devices of one [`Instance`](wgpu::Instance), but not those of two, whose numbers are the same.
//! - The buffer has the **usages** [`TENSOR_USAGES`], and a size that is a multiple of 4, which WebGPU requires for
//!   copies and bindings. Copy mapped buffers, and buffers with other usages such as vertices, to such a buffer first.
//! - wgpu buffers are always writable. A tensor is **read-only** after
//!   [`into_read_only`](dlbridge::Tensor::into_read_only). Then [`to_buffer`](TensorExt::to_buffer) refuses it, and
//!   [`to_buffer_for_reading`](TensorExt::to_buffer_for_reading) returns its buffer. Writing to that buffer breaks a
//!   promise, but is not undefined behaviour, because all access goes through wgpu.
//! - **Order.** All commands go through the device's one queue, in submission order.
//!
//! # Other libraries
//!
//! Other libraries know only one handle of wgpu, the `VkBuffer` of its Vulkan backend. A program exports it with
//! `dlbridge_vulkan::from_buffer`: the handle is `raw_handle()` of what
//! [`buffer.as_hal::<wgpu::hal::api::Vulkan>()`](wgpu::Buffer::as_hal) returns, and the owner is the [`wgpu::Buffer`].
//! In the other direction, `wgpu::hal::vulkan::Buffer::from_raw_externally_owned` wraps the `VkBuffer` of a tensor, and
//! [`create_buffer_from_hal`](wgpu::Device::create_buffer_from_hal) makes a [`wgpu::Buffer`] of it.
//!
//! wgpu clears memory on its first use, so use the buffer in wgpu before another library writes it. wgpu holds locks
//! while it calls the drop callback of an imported buffer, so that callback must not call wgpu.
//!
//! # Backends
//!
//! This crate enables only wgpu's Vulkan backend; a program that needs others names them in its own dependency on wgpu.
//! Functions that wait for a device, such as [`to_host`](TensorExt::to_host), do not work in a browser.
//!
//! # Errors of wgpu
//!
//! The functions return, as [`Error::Wgpu`], the errors that wgpu would report to the device's error handler, which
//! panics by default. wgpu does not report that a device was destroyed; the functions return [`Error::Lost`] then. wgpu
//! panics if a device is lost during a wait.

mod buffer;
mod copy;
mod error;
mod held;
mod tensor;

pub use buffer::{BufferExt, TENSOR_USAGES};
pub use copy::to_device;
pub use error::{Error, Result};
pub use tensor::{Binding, TensorExt};

/// Keeps the extension traits closed, so that methods can be added.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
