//! What can go wrong.

use std::fmt;

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
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    Tensor(dlbridge::Error),
    /// The library of the CUDA driver is not on this machine.
    NoDriver,
    /// What the driver refused.
    Driver {
        /// The number of the error, a `CUresult`.
        code: u32,
        /// The name of it.
        name: String,
    },
    /// The driver does not know the address.
    UnknownAddress {
        /// The address.
        address: u64,
    },
    /// The tensor is somewhere else.
    NotCuda {
        /// Where it is.
        device: Device,
    },
    /// The tensor is on another device than the stream.
    OtherDevice {
        /// Where the tensor is.
        device: Device,
        /// The number of the stream's device.
        ordinal: usize,
    },
    /// The tensor's elements are not adjacent in C order.
    Strided {
        /// The strides, in elements.
        strides: Vec<i64>,
    },
    /// Not every byte is an element of the type, and nobody looks at them on a device.
    Unchecked {
        /// The type of the elements.
        dtype: DataType,
    },
    /// The context is not the primary one of its device.
    NotPrimary,
    /// The memory and the stream that it is to be in the order of are of different contexts.
    OtherContext,
    /// The stream that the memory is to be in the order of is another one on each thread.
    PerThread,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(error) => error.fmt(f),
            Self::NoDriver => f.write_str(
                "there is no CUDA on this machine: the driver's library (libcuda.so, nvcuda.dll) was not found; \
                 install NVIDIA's driver, or keep the data on the CPU",
            ),
            Self::Driver { code, name } => write!(f, "the CUDA driver: {name} (code {code})"),
            Self::UnknownAddress { address } => write!(
                f,
                "the CUDA driver does not know the address {address:#x}; it is not memory of CUDA, or freed"
            ),
            Self::NotCuda { device } => {
                write!(f, "the tensor is on {device}, and not on CUDA; copy it there with to_device")
            }
            Self::OtherDevice { device, ordinal } => write!(
                f,
                "the tensor is on {device}, and the stream on cuda:{ordinal}; use a stream of the tensor's \
                 device, or copy it to the other one with copy_to"
            ),
            Self::Strided { strides } => write!(
                f,
                "the tensor has the strides {strides:?}, and memory of cudarc has none: its elements are \
                 adjacent in C order; copy it with the producer, or through to_host and to_device"
            ),
            Self::Unchecked { dtype } => write!(
                f,
                "not every byte is an element of {dtype}, and on a device nobody looks at them; take the bytes \
                 with into_cuda_bytes"
            ),
            Self::NotPrimary => f.write_str(
                "the context is not the primary one of its device, which other libraries use; make it with \
                 CudaContext::new",
            ),
            Self::OtherContext => f.write_str(
                "the memory and the stream that it is to be in the order of are of different contexts; use a \
                 stream of the memory's context",
            ),
            Self::PerThread => f.write_str(
                "the per-thread default stream is another one on each thread, and a tensor may be used on any; \
                 name a stream that is the same to all",
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Tensor(error) => Some(error),
            _ => None,
        }
    }
}

impl From<dlbridge::Error> for Error {
    fn from(error: dlbridge::Error) -> Self {
        Self::Tensor(error)
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        Self::Driver { code: error.0 as u32, name: format!("{:?}", error.0) }
    }
}
