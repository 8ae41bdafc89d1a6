//! Errors of conversions and copies.

use dlbridge::Device;
use opencl3::error_codes::ClError;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a conversion between a buffer and a tensor, or of a copy.
///
/// ```
/// use dlbridge::Tensor;
/// use dlbridge_opencl::{Error, TensorExt};
///
/// let error = Tensor::from(vec![1.0_f32]).to_buffer::<f32>().unwrap_err();
/// assert!(matches!(error, Error::NotOpenCl { .. }));
/// assert_eq!(error.to_string(), "the tensor is on cpu, not on an OpenCL device; copy it there with to_device");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// dlbridge refuses the tensor.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// OpenCL returned an error code.
    #[error("OpenCL: {0} (code {code})", code = .0.0)]
    OpenCl(#[from] ClError),
    /// The elements reach past the end of the buffer, or begin before it.
    #[error(
        "the elements need the bytes {first} to {end}, but the buffer has {size} bytes; use a larger buffer or a \
         smaller tensor"
    )]
    TooSmall {
        /// Their first byte, counted from the beginning of the buffer.
        first: i64,
        /// The byte after the last one.
        end: i64,
        /// The size of the buffer in bytes.
        size: usize,
    },
    /// The tensor is not on an OpenCL device.
    #[error("the tensor is on {device}, not on an OpenCL device; copy it there with to_device")]
    NotOpenCl {
        /// The device of the tensor.
        device: Device,
    },
    /// The tensor is empty, so it does not have a buffer.
    #[error("the tensor is empty, so it does not have a buffer; skip empty tensors")]
    Empty,
    /// The `cl_mem` is an image or a pipe.
    #[error("the cl_mem is an image or a pipe, not a buffer; copy it to a buffer first")]
    NotABuffer,
    /// The buffer and the queue belong to different contexts.
    #[error(
        "the buffer and the queue belong to different contexts; use a queue of the buffer's context"
    )]
    OtherContext,
    /// No platform lists the device of the buffer's context.
    #[error(
        "no platform lists the device of the buffer's context; create the context with a listed device"
    )]
    UnlistedDevice,
}
