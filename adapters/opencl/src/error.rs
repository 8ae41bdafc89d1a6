//! What can go wrong.

use std::fmt;

use dlbridge::Device;
use opencl3::error_codes::ClError;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a buffer is no tensor, or a tensor no buffer.
///
/// ```
/// use dlbridge::Tensor;
/// use dlbridge_opencl::{Error, TensorExt};
///
/// let error = Tensor::from(vec![1.0_f32]).to_buffer::<f32>().unwrap_err();
/// assert!(matches!(error, Error::NotOpenCl { .. }));
/// assert_eq!(error.to_string(), "the tensor is on cpu, and not on a device of OpenCL; copy it there with to_device");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    Tensor(dlbridge::Error),
    /// What OpenCL refused, with its code.
    OpenCl(ClError),
    /// The elements do not fit the buffer, or begin before it.
    TooSmall {
        /// The first byte of them, counted from the beginning of the buffer.
        first: i64,
        /// The byte after the last.
        end: i64,
        /// The bytes that the buffer has.
        size: usize,
    },
    /// The tensor is somewhere else.
    NotOpenCl {
        /// Where it is.
        device: Device,
    },
    /// The tensor has no elements, and so no memory.
    Empty,
    /// The `cl_mem` is an image or a pipe.
    NotABuffer,
    /// The buffer and the queue are of different contexts.
    OtherContext,
    /// The device of the buffer's context is in no list of devices.
    UnlistedDevice,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(error) => error.fmt(f),
            Self::OpenCl(error) => write!(f, "OpenCL: {error} (code {})", error.0),
            Self::TooSmall { first, end, size } => write!(
                f,
                "the elements take the bytes {first} to {end} of a buffer of {size}; make it larger, or the \
                 tensor smaller"
            ),
            Self::NotOpenCl { device } => write!(
                f,
                "the tensor is on {device}, and not on a device of OpenCL; copy it there with to_device"
            ),
            Self::Empty => f.write_str("the tensor has no elements, and so no buffer"),
            Self::NotABuffer => {
                f.write_str("the cl_mem is an image or a pipe, and no buffer; copy it to one first")
            }
            Self::OtherContext => {
                f.write_str("the tensor's buffer and the queue are of different contexts; use a queue of its own")
            }
            Self::UnlistedDevice => {
                f.write_str("the device of the buffer's context is in no platform's list of devices")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Tensor(error) => Some(error),
            Self::OpenCl(error) => Some(error),
            _ => None,
        }
    }
}

impl From<dlbridge::Error> for Error {
    fn from(error: dlbridge::Error) -> Self {
        Self::Tensor(error)
    }
}

impl From<ClError> for Error {
    fn from(error: ClError) -> Self {
        Self::OpenCl(error)
    }
}
