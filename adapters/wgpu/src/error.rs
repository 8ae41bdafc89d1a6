//! Errors of conversions and copies.

use dlbridge::Device;
use wgpu::BufferUsages;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a conversion between a buffer and a tensor, or of a copy.
///
/// ```
/// use dlbridge::Tensor;
/// use dlbridge_wgpu::{Error, TensorExt};
///
/// let error = Tensor::from(vec![1.0_f32]).to_buffer().unwrap_err();
/// assert!(matches!(error, Error::NotWebGpu { .. }));
/// assert_eq!(error.to_string(), "the tensor is on cpu, not on webgpu; copy it there with to_device");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// dlbridge refuses the tensor.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// wgpu returned an error.
    #[error("wgpu: {0}")]
    Wgpu(#[source] wgpu::Error),
    /// wgpu returned an error while a function waited for the device, or mapped a buffer.
    #[error("wgpu, during a wait for the device: {0}")]
    Wait(#[source] Box<dyn std::error::Error + Send + Sync>),
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
        size: u64,
    },
    /// The buffer's size is not a multiple of 4.
    #[error(
        "the buffer has {size} bytes, but WebGPU requires a multiple of 4 for copies and bindings; create it with {}",
        .size.next_multiple_of(4)
    )]
    UnevenSize {
        /// The size of the buffer in bytes.
        size: u64,
    },
    /// The buffer was created without some usages of a tensor.
    #[error("the buffer lacks the usages {missing:?}; create it with them")]
    Usages {
        /// The missing usages.
        missing: BufferUsages,
    },
    /// The tensor is not on `webgpu`.
    #[error("the tensor is on {device}, not on webgpu; copy it there with to_device")]
    NotWebGpu {
        /// The device of the tensor.
        device: Device,
    },
    /// The tensor is on `webgpu`, but this crate did not make it in this program.
    #[error(
        "the tensor is on webgpu, but this crate did not make it in this program: tensors of other libraries, such as \
         a WGPUBuffer, are not wgpu buffers; copy it through the host"
    )]
    Foreign,
    /// The tensor is empty, so it does not have a buffer.
    #[error("the tensor is empty, so it does not have a buffer; skip empty tensors")]
    Empty,
    /// The queue or the tensor belongs to another device.
    #[error(
        "the queue or the tensor belongs to another device; use the device that they were made with"
    )]
    OtherDevice,
    /// The device was destroyed, or is lost.
    #[error("the device was destroyed or is lost; request a new one from the adapter")]
    Lost,
}
