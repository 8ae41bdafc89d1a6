//! What can go wrong.

use std::fmt;

use dlbridge::{Device, DeviceType};
use wgpu::BufferUsages;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a buffer is no tensor, or a tensor no buffer.
///
/// ```
/// use dlbridge::Tensor;
/// use dlbridge_wgpu::{Error, TensorExt};
///
/// let error = Tensor::from(vec![1.0_f32]).to_buffer().unwrap_err();
/// assert!(matches!(error, Error::OtherDeviceType { .. }));
/// assert_eq!(error.to_string(), "the tensor is on cpu, and not on webgpu; copy it there with to_device");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    Tensor(dlbridge::Error),
    /// What wgpu refused.
    Wgpu(wgpu::Error),
    /// What wgpu said while it waited for the device, or while a buffer was mapped.
    Wait(Box<dyn std::error::Error + Send + Sync>),
    /// The elements do not fit the buffer, or begin before it.
    TooSmall {
        /// The first byte of them, counted from the beginning of the buffer.
        first: i64,
        /// The byte after the last.
        end: i64,
        /// The bytes that the buffer has.
        size: u64,
    },
    /// The buffer's size is no multiple of 4.
    UnevenSize {
        /// The bytes that the buffer has.
        size: u64,
    },
    /// The buffer was created without what a tensor is used for.
    Usages {
        /// The usages that it lacks.
        missing: BufferUsages,
    },
    /// The tensor is somewhere else.
    OtherDeviceType {
        /// Where it is.
        found: Device,
        /// Where it has to be.
        expected: DeviceType,
    },
    /// The tensor is on `webgpu`, but this crate, in this program, has not made it.
    Foreign,
    /// The tensor has no elements, and so no memory.
    Empty,
    /// The device and the queue, or the device and the tensor, do not belong together.
    OtherDevice,
    /// The device is not one of wgpu's Vulkan backend.
    NotVulkan,
    /// The buffer has no `VkBuffer` any more.
    Destroyed,
    /// The device was destroyed, or is lost.
    Lost,
    /// The thread that calls deleters could not be started.
    Thread(std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(error) => error.fmt(f),
            Self::Wgpu(error) => write!(f, "wgpu: {error}"),
            Self::Wait(error) => write!(f, "wgpu, while it was waited for: {error}"),
            Self::TooSmall { first, end, size } => write!(
                f,
                "the elements take the bytes {first} to {end} of a buffer of {size}; make it larger, or the \
                 tensor smaller"
            ),
            Self::UnevenSize { size } => write!(
                f,
                "the buffer has {size} bytes, but WebGPU copies and binds multiples of 4 alone; create it with {}",
                size.next_multiple_of(4)
            ),
            Self::Usages { missing } => {
                write!(f, "the buffer was created without the usages {missing:?}; add them")
            }
            Self::OtherDeviceType { found, expected } => {
                write!(f, "the tensor is on {found}, and not on {expected}")?;
                match *expected == DeviceType::WEB_GPU && found.device_type().is_host_accessible() {
                    true => f.write_str("; copy it there with to_device"),
                    false => Ok(()),
                }
            }
            Self::Foreign => f.write_str(
                "the tensor is on webgpu, but was not made by this crate in this program: what another library \
                 says there, a WGPUBuffer for instance, is no buffer of wgpu; let it pass by the host, or by vulkan",
            ),
            Self::Empty => f.write_str("the tensor has no elements, and so no buffer"),
            Self::OtherDevice => f.write_str(
                "the device is not the one of the queue, or of the tensor; use the one that they were made with",
            ),
            Self::NotVulkan => f.write_str(
                "the device is of another backend of wgpu than Vulkan, and its buffers are no VkBuffer; create \
                 the instance with Backends::VULKAN",
            ),
            Self::Destroyed => f.write_str(
                "the buffer has no VkBuffer: it was destroyed, or is of a device of another backend",
            ),
            Self::Lost => f.write_str(
                "the device was destroyed or is lost, and takes no more work; request another of the adapter",
            ),
            Self::Thread(error) => {
                write!(f, "the thread that calls deleters could not be started: {error}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Tensor(error) => Some(error),
            Self::Wgpu(error) => Some(error),
            Self::Wait(error) => Some(&**error),
            Self::Thread(error) => Some(error),
            _ => None,
        }
    }
}

impl From<dlbridge::Error> for Error {
    fn from(error: dlbridge::Error) -> Self {
        Self::Tensor(error)
    }
}
