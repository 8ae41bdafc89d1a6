//! What can go wrong.

use ash::{LoadingError, vk};
use dlbridge::Device;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a buffer is no tensor, or a tensor no buffer.
///
/// ```
/// use dlbridge::Tensor;
/// use dlbridge_vulkan::{Error, TensorExt};
///
/// let tensor = Tensor::from(vec![1.0_f32]);
/// let error = tensor.to_buffer().unwrap_err();
/// assert!(matches!(error, Error::NotVulkan { .. }));
/// assert_eq!(error.to_string(), "the tensor is on cpu, and not on a device of Vulkan; copy it there with to_device");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// What Vulkan refused, with its code.
    #[error("Vulkan: {0} ({0:?}, code {code})", code = .0.as_raw())]
    Vulkan(#[from] vk::Result),
    /// The library through which drivers are reached could not be opened.
    #[error("the Vulkan loader cannot be opened; install it, with a driver: {0}")]
    NoLoader(#[source] LoadingError),
    /// There is no physical device with this number.
    #[error("there is no device {id} of Vulkan; they are {count}, counted from 0")]
    NoDevice {
        /// The number that was asked for.
        id: i32,
        /// How many devices there are.
        count: usize,
    },
    /// The physical device is none that its instance lists.
    #[error(
        "the physical device is in no list of its instance, and so has no number; pass its own instance"
    )]
    UnlistedDevice,
    /// The physical device has no queue that runs compute shaders.
    #[error("device {id} of Vulkan has no queue for compute shaders; take another")]
    NoQueue {
        /// Its number.
        id: i32,
    },
    /// The elements do not fit the buffer.
    #[error(
        "the elements take the bytes {first} to {end} of a buffer of {size}; make it larger, or the tensor smaller"
    )]
    TooSmall {
        /// The first byte of them, counted from the beginning of the buffer.
        first: u64,
        /// The byte after the last.
        end: u64,
        /// The bytes that the buffer has.
        size: u64,
    },
    /// The tensor is somewhere else.
    #[error(
        "the tensor is on {device}, and not on a device of Vulkan; copy it there with to_device"
    )]
    NotVulkan {
        /// Where it is.
        device: Device,
    },
    /// The tensor has no elements, and so no memory.
    #[error("the tensor has no elements, and so no buffer")]
    Empty,
    /// The buffer was not made with this device by this crate.
    #[error(
        "the tensor's buffer was not made with this device by this crate; use the device that it was made with, or \
         to_host_unchecked for a buffer that other code made from its VkDevice"
    )]
    OtherDevice,
}
