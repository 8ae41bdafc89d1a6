//! Vulkan buffers of [ash] 0.38 as tensors, and tensors as Vulkan buffers, without a copy.
//!
//! ```no_run
//! use dlbridge::Tensor;
//! use dlbridge_vulkan::{Device, TensorExt, to_device};
//!
//! let device = Device::new(0)?;
//! let tensor = to_device(&Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]), &device)?; // a copy
//! let handle = tensor.to_buffer()?.handle();         // its VkBuffer, for a shader
//! let column = tensor.transpose().index_axis(0, 1)?; // 2.0 and 4.0, without a copy
//! assert_eq!(column.byte_offset(), 4);               // the parent's buffer and a byte offset
//! assert_eq!(column.to_buffer()?.handle(), handle);
//! assert_eq!(column.to_host(&device)?.view::<f32>()?.to_vec(), [2.0, 4.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`Device`] | a logical device and its queue, which this crate opens or the program supplies |
//! | [`to_device`] | copies a host tensor into a new buffer |
//! | [`TensorExt`] | tensors as buffers, or copied to the host |
//! | [`from_buffer`] | the program's own buffer as a tensor |
//!
//! Commands are ash's own unsafe functions: the program binds [`BufferRef::handle`] to a shader, and submits it while
//! it holds [`Device::queue`]. The tests of this crate double a tensor this way.
//!
//! # Fields of the tensors
//!
//! `dlpack.h` does not specify them. `docs/device-conventions.md` in the repository has the full convention; in short:
//!
//! - The **data** pointer has the value of the `VkBuffer` itself, a 64-bit handle. It is not a device address, and not
//!   a pointer to a structure. The owner keeps the buffer, its memory and the logical device. A handle cannot be
//!   offset, so a slice of a tensor is the parent's handle with a **byte offset**.
//! - The **device** is the number of the physical device in `vkEnumeratePhysicalDevices`. A tensor does not contain the
//!   **logical** device or the queue family: two libraries must agree on both.
//! - The buffer may be used as a storage buffer and copied from and to, and has all elements. Vulkan cannot report its
//!   size.
//! - **Order.** Before an export, the producer waits for the commands that write the tensor, or agrees with the
//!   consumer on one queue. The consumer puts a barrier before its commands, and drops the tensor when they have
//!   finished.
//!
//! TVM stores a pointer to its own structure in this field; its tensors on this device must not be imported.
//!
//! # Ownership of a buffer
//!
//! A `VkBuffer` does not identify its logical device, and its use with another device is undefined behaviour. So a
//! [`Device`] records the handles of the live buffers that [`to_device`] made with it, and the safe
//! [`TensorExt::to_host`] refuses all others: those of another device, and those of another library. It recognises its
//! buffers after any path: as slices, borrowed, through a C consumer, or through Python.
//! [`TensorExt::to_host_unchecked`] copies other buffers.
//!
//! The check is limited to the handle. Vulkan does not promise unique buffer handles: a buffer of another `VkDevice`
//! may have the same one, although no known driver does this. Then the copy reads the buffer of this device: the wrong
//! elements, but no undefined behaviour.
//!
//! # Memory
//!
//! Each tensor from [`to_device`] has its own Vulkan allocation, and each copy has one while it runs. Drivers may allow
//! only 4096 at a time. Programs with their own allocator use [`from_buffer`].
//!
//! # Without Vulkan
//!
//! The first [`Device`] opens the loader, which stays open. Without a loader this is [`Error::NoLoader`]; with a loader
//! and no driver, [`Error::Vulkan`] with `ERROR_INCOMPATIBLE_DRIVER`.
//!
//! The crate supports only targets with 64-bit pointers, because a handle does not fit into smaller ones.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a VkBuffer has 64 bits, and does not fit into the data pointer on this target");

mod buffer;
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

/// Keeps the extension trait closed, so that methods can be added.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
