//! Vulkan buffers as tensors, and tensors as Vulkan buffers, without a copy, for [ash] 0.38.
//!
//! ```no_run
//! use dlbridge::Tensor;
//! use dlbridge_vulkan::{Device, TensorExt, to_device};
//!
//! let device = Device::new(0)?;
//! let tensor = to_device(&Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]), &device)?; // a copy
//! let handle = tensor.to_buffer()?.handle();         // its VkBuffer, for a shader
//! let column = tensor.transpose().index_axis(0, 1)?; // 2.0 and 4.0, where they are
//! assert_eq!(column.byte_offset(), 4);               // a part is its parent and a byte offset
//! assert_eq!(column.to_buffer()?.handle(), handle);
//! assert_eq!(column.to_host(&device)?.view::<f32>()?.to_vec(), [2.0, 4.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`Device`] | a logical device and its queue: opened here, or the program's own |
//! | [`to_device`] | a tensor of the host copied into a new buffer |
//! | [`TensorExt`] | tensors as buffers, or copied to the host |
//! | [`from_buffer`] | a buffer of the program's own as a tensor |
//!
//! Commands are ash's own, and unsafe there: a shader is bound to [`BufferRef::handle`], and submitted while
//! [`Device::queue`] is held. The tests of this crate double a tensor so.
//!
//! # What such a tensor says
//!
//! `dlpack.h` leaves it open. The repository has the whole convention in `docs/device-conventions.md`; in short:
//!
//! - Its **data** is the `VkBuffer`, the 64-bit handle itself as the pointer's value: no device address, and no
//!   pointer to a structure. The owner keeps buffer, memory and logical device. Nobody can add to a handle, so a part of a
//!   tensor is the parent's handle with a **byte offset**.
//! - Its **device** is the number of the physical device in `vkEnumeratePhysicalDevices`. The **logical** device has
//!   no place in a tensor, nor has the family of queues: two libraries agree on both.
//! - The buffer can be a storage buffer, and be copied from and to, and has all elements. Its size cannot be asked for.
//! - **Order.** Who exports a tensor has waited for the commands that write it, or has agreed with the consumer on one
//!   queue. Who takes it puts a barrier before what uses it, and drops the tensor when that is done.
//!
//! TVM puts a pointer to a structure of its own there; its tensors on this device must not be imported.
//!
//! # Whose buffer it is
//!
//! A `VkBuffer` does not tell its logical device, and using it with another is undefined. So a [`Device`] knows the
//! buffers that [`to_device`] made with it and that live, by their handles, and the safe [`TensorExt::to_host`] uses no
//! others: not from another device, and not from another library. It knows them again whichever way they went,
//! as parts, lent, through a C consumer, or through Python. For others there is [`TensorExt::to_host_unchecked`].
//!
//! That is as far as the handle tells. Vulkan does not promise that handles of buffers are unique: one of another `VkDevice`
//! may have the same, although no driver is known where it does. Its tensor is then taken for one over the buffer that this
//! device made, which is the one that is copied: other elements than were meant, and nothing worse.
//!
//! # Memory
//!
//! Each tensor that [`to_device`] makes has an allocation of Vulkan's to itself, and each copy has one while it lasts. Drivers
//! may allow no more than 4096 at a time: [`from_buffer`] is for programs with an allocator of their own.
//!
//! # Without Vulkan
//!
//! The loader is opened when a [`Device`] is first made, and stays open. Where there is none, that is
//! [`Error::NoLoader`]; where there is a loader and no driver, [`Error::Vulkan`] with `ERROR_INCOMPATIBLE_DRIVER`.
//!
//! The crate is for targets with pointers of 64 bits: a handle does not fit into others.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a VkBuffer has 64 bits, and the data pointer of a tensor has no room for it here");

mod buffer;
mod commands;
mod copy;
mod device;
mod error;
mod open;
mod tensor;

pub use buffer::{BufferParts, BufferRef, from_buffer};
pub use copy::to_device;
pub use device::{Device, Queue};
pub use error::{Error, Result};
pub use open::DeviceParts;
pub use tensor::TensorExt;

/// Keeps the extension trait closed, so that it can grow.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
