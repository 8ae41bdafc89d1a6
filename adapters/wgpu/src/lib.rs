//! wgpu buffers as tensors, and tensors as wgpu buffers, without a copy, for [wgpu] 30.
//!
//! ```no_run
//! use dlbridge::Tensor;
//! use dlbridge_wgpu::{BufferExt, TensorExt, to_device};
//!
//! # fn crossing(device: &wgpu::Device, queue: &wgpu::Queue) -> Result<(), Box<dyn std::error::Error>> {
//! let tensor = to_device(&Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]), device)?; // a copy
//! let buffer = tensor.to_buffer()?;                  // the same memory, for a shader
//! let column = tensor.transpose().index_axis(0, 1)?; // 2.0 and 4.0, where they are
//! assert_eq!(column.byte_offset(), 4);               // a part is its parent and a byte offset
//! assert_eq!(column.to_host(device, queue)?.view::<f32>()?.to_vec(), [2.0, 4.0]);
//! let again = buffer.into_tensor::<f32>([4])?;       // for whoever has this crate too
//! # Ok(())
//! # }
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`BufferExt`] | buffers into tensors |
//! | [`TensorExt`] | tensors as buffers, or copied to the host |
//! | [`Binding`] | the piece of a buffer that a shader sees for a part of a tensor |
//! | [`to_device`] | a tensor of the host copied into a new buffer |
//! | `VulkanExt` | tensors on `webgpu` as tensors on `vulkan`, for other libraries, and back |
//! | `wait_for_deleters` | waits for the deleters of tensors that came back so |
//!
//! # What a tensor on `webgpu` says
//!
//! - Its **data** is an address that stands for the [`wgpu::Buffer`], which the owner keeps, and for nothing else. `dlpack.h`
//!   wants a handle, and `webgpu.h` has one, `WGPUBuffer`, but the crate wgpu is no implementation of `webgpu.h`. So only
//!   this crate finds the buffer again, in the same program, by that address, which it never follows: whatever way the
//!   tensor has gone, as a part, shared, or by [`into_raw`](dlbridge::Tensor::into_raw) through another library. A
//!   tensor that another library made, whose data may be a `WGPUBuffer`, is refused: [`Error::Foreign`].
//! - Nobody can add to a handle, so a part of a tensor is the parent's buffer with a **byte offset**. A shader's binding must
//!   begin at a multiple of the device's `min_storage_buffer_offset_alignment`, 256 by default:
//!   [`TensorExt::binding`] splits the offset in two.
//! - Its **device** is number 0: WebGPU does not number devices. Which [`wgpu::Device`] it is of, the two sides agree on.
//!   This crate knows the device of buffers that it made itself; of others wgpu tells devices of one
//!   [`Instance`](wgpu::Instance) apart, but not those of two, whose numbers are the same.
//! - Its buffer has the **usages** [`TENSOR_USAGES`], and a size that is a multiple of 4, which is what WebGPU copies and binds.
//!   Buffers that are mapped, or that are created for vertices alone, are copied to such a one first.
//! - wgpu cannot say of a buffer that it must not be written. A tensor is **read-only** where
//!   [`into_read_only`](dlbridge::Tensor::into_read_only) said so, and then has no
//!   [`to_buffer`](TensorExt::to_buffer), but [`to_buffer_for_reading`](TensorExt::to_buffer_for_reading). To write to that one
//!   breaks a promise, and is no undefined behaviour: all that reaches it goes through wgpu.
//! - **Order.** All goes through the device's one queue, in the order of submission.
//!
//! # What a tensor on `vulkan` says
//!
//! wgpu's Vulkan backend has a handle that other libraries know: `VulkanExt` (on 64-bit Linux, Android, FreeBSD and Windows)
//! makes such a tensor of one on `webgpu`, and the other way round.
//!
//! - Its **data** is the `VkBuffer`; a part is the parent's and a byte offset.
//! - Its **device** is the place of the physical device among those that `vkEnumeratePhysicalDevices` lists for wgpu's instance.
//! - Which **`VkDevice`** it is of, the two sides agree on: a `VkBuffer` means nothing to another.
//! - Its **usages** are `STORAGE_BUFFER`, `TRANSFER_SRC` and `TRANSFER_DST`; it belongs to the queue family of wgpu's queue.
//! - **Order.** Who exports it has finished its writes, or has agreed with the consumer on a queue. A `VkQueue` is used by one
//!   thread at a time: who submits to wgpu's own sees to it that nobody submits by wgpu meanwhile. The deleter is
//!   called when the consumer's commands that use it are done: for what wgpu consumes a thread of this crate does so.
//! - **Loss.** When wgpu loses the device, also because some call ran out of memory, it destroys all buffers, and the handles in
//!   tensors that it exported dangle while the `VkDevice` lives on.
//!
//! # Backends
//!
//! This crate asks wgpu for its Vulkan backend alone; a program that wants others names them in its own dependency on wgpu.
//! Waiting for a device, as [`to_host`](TensorExt::to_host) does, is not possible in a browser.
//!
//! # Errors of wgpu
//!
//! What wgpu would report to the device's error handler, which panics by default, the functions here return as
//! [`Error::Wgpu`]. That a device was destroyed it reports nowhere: that is [`Error::Lost`]. A device that is lost while it is
//! waited for is a panic of wgpu's.

mod binding;
mod buffer;
mod copy;
#[cfg(all(
    target_pointer_width = "64",
    any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")
))]
mod deleter;
mod device;
mod error;
mod held;
mod tensor;
#[cfg(all(
    target_pointer_width = "64",
    any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")
))]
mod vulkan;
mod wait;

pub use binding::Binding;
pub use buffer::{BufferExt, TENSOR_USAGES};
pub use copy::to_device;
pub use error::{Error, Result};
pub use tensor::TensorExt;
#[cfg(all(
    target_pointer_width = "64",
    any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")
))]
pub use {deleter::wait_for_deleters, vulkan::VulkanExt};

/// Keeps the extension traits closed, so that they can grow.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
