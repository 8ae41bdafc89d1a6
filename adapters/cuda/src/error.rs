//! What can go wrong.

use cudarc::driver::DriverError;
use dlbridge::{DataType, Device};

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why memory of CUDA is no tensor, or a tensor no memory of CUDA.
///
/// ```
/// use dlbridge_cuda::Error;
///
/// let text = Error::NoDriver.to_string();
/// assert!(text.starts_with("there is no CUDA on this machine"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// The library of the CUDA driver is not on this machine.
    #[error(
        "there is no CUDA on this machine: the driver's library (libcuda.so, nvcuda.dll) was not found; install \
         NVIDIA's driver, or keep the data on the CPU"
    )]
    NoDriver,
    /// What the driver refused.
    #[error("the CUDA driver: {name} (code {code})")]
    Driver {
        /// The number of the error, a `CUresult`.
        code: u32,
        /// The name of it.
        name: String,
    },
    /// The driver does not know the address.
    #[error(
        "the CUDA driver does not know the address {address:#x}; it is not memory of CUDA, or freed"
    )]
    UnknownAddress {
        /// The address.
        address: u64,
    },
    /// The tensor is somewhere else.
    #[error("the tensor is on {device}, and not on CUDA; copy it there with to_device")]
    NotCuda {
        /// Where it is.
        device: Device,
    },
    /// The tensor is on another device than the stream.
    #[error(
        "the tensor is on {device}, and the stream on cuda:{ordinal}; use a stream of the tensor's device, or copy it \
         to the other one with copy_to"
    )]
    OtherDevice {
        /// Where the tensor is.
        device: Device,
        /// The number of the stream's device.
        ordinal: usize,
    },
    /// The tensor's elements are not adjacent in C order.
    #[error(
        "the tensor has the strides {strides:?}, and memory of cudarc has none: its elements are adjacent in C order; \
         copy it with the producer, or through to_host and to_device"
    )]
    Strided {
        /// The strides, in elements.
        strides: Vec<i64>,
    },
    /// Not every byte is an element of the type, and bytes on a device are not checked.
    #[error(
        "not every byte is an element of {dtype}, and bytes on a device are not checked; take the bytes with \
         into_cuda_bytes"
    )]
    Unchecked {
        /// The type of the elements.
        dtype: DataType,
    },
    /// The context is not the primary one of its device.
    #[error(
        "the context is not the primary one of its device, which other libraries use; make it with CudaContext::new"
    )]
    NotPrimary,
    /// The memory and the stream that it is to be in the order of are of different contexts.
    #[error(
        "the memory and the stream that it is to be in the order of are of different contexts; use a stream of the \
         memory's context"
    )]
    OtherContext,
    /// The stream that the memory is to be in the order of is another one on each thread.
    #[error(
        "the per-thread default stream is another one on each thread, and a tensor may be used on any; name a stream \
         that is the same to all"
    )]
    PerThread,
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        Self::Driver { code: error.0 as u32, name: format!("{:?}", error.0) }
    }
}
