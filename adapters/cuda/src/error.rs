//! Errors of conversions and copies.

use cudarc::driver::DriverError;
use dlbridge::{DataType, Device};

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a conversion between CUDA memory and a tensor, or of a copy.
///
/// ```
/// use dlbridge_cuda::Error;
///
/// let text = Error::NoDriver.to_string();
/// assert!(text.starts_with("CUDA is not available on this machine"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// dlbridge refuses the tensor.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// The library of the CUDA driver is not on this machine.
    #[error(
        "CUDA is not available on this machine: the driver's library (libcuda.so, nvcuda.dll) was not found; install \
         NVIDIA's driver, or keep the data on the CPU"
    )]
    NoDriver,
    /// The driver returned an error.
    #[error("the CUDA driver: {name} (code {code})")]
    Driver {
        /// The number of the error, a `CUresult`.
        code: u32,
        /// Its name.
        name: String,
    },
    /// The driver does not know the address.
    #[error(
        "the CUDA driver does not know the address {address:#x}; it is not CUDA memory, or was freed"
    )]
    UnknownAddress {
        /// The address.
        address: u64,
    },
    /// The tensor is not on CUDA.
    #[error("the tensor is on {device}, not on CUDA; copy it there with to_device")]
    NotCuda {
        /// The device of the tensor.
        device: Device,
    },
    /// The tensor is on another device than the stream.
    #[error(
        "the tensor is on {device}, and the stream on cuda:{ordinal}; use a stream of the tensor's device, or copy it \
         to the other one with copy_to"
    )]
    OtherDevice {
        /// The device of the tensor.
        device: Device,
        /// The number of the stream's device.
        ordinal: usize,
    },
    /// The tensor's elements are not contiguous in C order.
    #[error(
        "the tensor has the strides {strides:?}, but memory of cudarc is contiguous in C order; copy the tensor with \
         its producer, or through to_host and to_device"
    )]
    Strided {
        /// The strides, in elements.
        strides: Vec<i64>,
    },
    /// The type has invalid byte values, such as those of `bool`, and bytes on a device are not checked.
    #[error(
        "{dtype} has invalid byte values, and bytes on a device are not checked; request the bytes with \
         into_cuda_bytes"
    )]
    Unchecked {
        /// The type of the elements.
        dtype: DataType,
    },
    /// The context is not the primary one of its device.
    #[error(
        "the context is not the primary context of its device, which other libraries use; create it with \
         CudaContext::new"
    )]
    NotPrimary,
    /// The memory and the stream belong to different contexts.
    #[error(
        "the memory and the stream belong to different contexts; use a stream of the memory's context"
    )]
    OtherContext,
    /// The stream is the per-thread default stream, which is a different stream on each thread.
    #[error(
        "the per-thread default stream is a different stream on each thread, but a tensor may be used on any thread; \
         name another stream"
    )]
    PerThread,
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        Self::Driver { code: error.0 as u32, name: format!("{:?}", error.0) }
    }
}
