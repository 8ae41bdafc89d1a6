//! What can go wrong.

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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// What OpenCL refused, with its code.
    #[error("OpenCL: {0} (code {code})", code = .0.0)]
    OpenCl(#[from] ClError),
    /// The elements do not fit the buffer, or begin before it.
    #[error(
        "the elements take the bytes {first} to {end} of a buffer of {size}; make it larger, or the tensor smaller"
    )]
    TooSmall {
        /// The first byte of them, counted from the beginning of the buffer.
        first: i64,
        /// The byte after the last.
        end: i64,
        /// The bytes that the buffer has.
        size: usize,
    },
    /// The tensor is somewhere else.
    #[error(
        "the tensor is on {device}, and not on a device of OpenCL; copy it there with to_device"
    )]
    NotOpenCl {
        /// Where it is.
        device: Device,
    },
    /// The tensor has no elements, and so no memory.
    #[error("the tensor has no elements, and so no buffer")]
    Empty,
    /// The `cl_mem` is an image or a pipe.
    #[error("the cl_mem is an image or a pipe, and no buffer; copy it to one first")]
    NotABuffer,
    /// The buffer and the queue are of different contexts.
    #[error("the tensor's buffer and the queue are of different contexts; use a queue of its own")]
    OtherContext,
    /// The device of the buffer's context is in no list of devices.
    #[error("the device of the buffer's context is in no platform's list of devices")]
    UnlistedDevice,
}
