//! Errors of conversions and copies.

use ash::{LoadingError, vk};
use dlbridge::Device;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a conversion between a buffer and a tensor, or of a copy.
///
/// ```
/// use dlbridge::Tensor;
/// use dlbridge_vulkan::{Error, TensorExt};
///
/// let tensor = Tensor::from(vec![1.0_f32]);
/// let error = tensor.to_buffer().unwrap_err();
/// assert!(matches!(error, Error::NotVulkan { .. }));
/// assert_eq!(error.to_string(), "the tensor is on cpu, not on a Vulkan device; copy it there with to_device");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// dlbridge refuses the tensor.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// Vulkan returned an error code.
    #[error("Vulkan: {0} ({0:?}, code {code})", code = .0.as_raw())]
    Vulkan(#[from] vk::Result),
    /// The library that finds the drivers could not be opened.
    #[error("the Vulkan loader cannot be opened; install it, with a driver: {0}")]
    NoLoader(#[source] LoadingError),
    /// No physical device has this number.
    #[error("Vulkan device {id} does not exist; there are {count}, numbered from 0")]
    NoDevice {
        /// The requested number.
        id: i32,
        /// The number of devices.
        count: usize,
    },
    /// The instance does not list the physical device.
    #[error(
        "the instance does not list the physical device, so the device is not numbered; pass the instance that \
         listed it"
    )]
    UnlistedDevice,
    /// The physical device lacks a queue that runs compute shaders.
    #[error("Vulkan device {id} lacks a queue for compute shaders; use another device")]
    NoQueue {
        /// The number of the device.
        id: i32,
    },
    /// The elements reach past the end of the buffer.
    #[error(
        "the elements need the bytes {first} to {end}, but the buffer has {size} bytes; use a larger buffer or a \
         smaller tensor"
    )]
    TooSmall {
        /// Their first byte, counted from the beginning of the buffer.
        first: u64,
        /// The byte after the last one.
        end: u64,
        /// The size of the buffer in bytes.
        size: u64,
    },
    /// The tensor is not on a Vulkan device.
    #[error("the tensor is on {device}, not on a Vulkan device; copy it there with to_device")]
    NotVulkan {
        /// The device of the tensor.
        device: Device,
    },
    /// The tensor is empty, so it does not have a buffer.
    #[error("the tensor is empty, so it does not have a buffer; skip empty tensors")]
    Empty,
    /// This crate did not make the buffer with this device.
    #[error(
        "this crate did not make the tensor's buffer with this device; use the device that made it, or \
         to_host_unchecked for a buffer that other code made from this VkDevice"
    )]
    OtherDevice,
}
