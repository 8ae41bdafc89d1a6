//! What can go wrong.

use std::fmt;

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
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    Tensor(dlbridge::Error),
    /// What Vulkan refused, with its code.
    Vulkan(vk::Result),
    /// The library through which drivers are reached could not be opened.
    NoLoader(LoadingError),
    /// There is no physical device with this number.
    NoDevice {
        /// The number that was asked for.
        id: i32,
        /// How many devices there are.
        count: usize,
    },
    /// The physical device is none that its instance lists.
    UnlistedDevice,
    /// The physical device has no queue that runs compute shaders.
    NoQueue {
        /// Its number.
        id: i32,
    },
    /// The elements do not fit the buffer.
    TooSmall {
        /// The first byte of them, counted from the beginning of the buffer.
        first: u64,
        /// The byte after the last.
        end: u64,
        /// The bytes that the buffer has.
        size: u64,
    },
    /// The tensor is somewhere else.
    NotVulkan {
        /// Where it is.
        device: Device,
    },
    /// The tensor has no elements, and so no memory.
    Empty,
    /// The buffer was not made with this device by this crate.
    OtherDevice,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(error) => error.fmt(f),
            Self::Vulkan(code) => {
                write!(f, "Vulkan: {code} ({code:?}, code {})", code.as_raw())
            }
            Self::NoLoader(error) => {
                write!(f, "the Vulkan loader cannot be opened; install it, with a driver: {error}")
            }
            Self::NoDevice { id, count } => {
                write!(f, "there is no device {id} of Vulkan; they are {count}, counted from 0")
            }
            Self::UnlistedDevice => f.write_str(
                "the physical device is in no list of its instance, and so has no number; is it of another instance?",
            ),
            Self::NoQueue { id } => {
                write!(f, "device {id} of Vulkan has no queue for compute shaders; take another")
            }
            Self::TooSmall { first, end, size } => write!(
                f,
                "the elements take the bytes {first} to {end} of a buffer of {size}; make it larger, or the \
                 tensor smaller"
            ),
            Self::NotVulkan { device } => write!(
                f,
                "the tensor is on {device}, and not on a device of Vulkan; copy it there with to_device"
            ),
            Self::Empty => f.write_str("the tensor has no elements, and so no buffer"),
            Self::OtherDevice => f.write_str(
                "the tensor's buffer was not made with this device by this crate; use the device that it was made with, \
                 or to_host_unchecked for a buffer that somebody else made from its VkDevice",
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Tensor(error) => Some(error),
            Self::Vulkan(error) => Some(error),
            Self::NoLoader(error) => Some(error),
            _ => None,
        }
    }
}

impl From<dlbridge::Error> for Error {
    fn from(error: dlbridge::Error) -> Self {
        Self::Tensor(error)
    }
}

impl From<vk::Result> for Error {
    fn from(error: vk::Result) -> Self {
        Self::Vulkan(error)
    }
}
