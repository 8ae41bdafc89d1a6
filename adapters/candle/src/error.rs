//! What can go wrong.

use std::fmt;

use candle_core::{DType, DeviceLocation};
use dlbridge::DataType;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a tensor of candle is no tensor, or a tensor none of candle.
///
/// ```
/// use dlbridge::{DataType, Tensor};
/// use dlbridge_candle::{Error, TensorExt};
///
/// let error = Tensor::from(vec![true, false]).into_candle().unwrap_err();
/// assert!(matches!(error, Error::DataType { dtype: DataType::BOOL }));
/// assert_eq!(
///     error.to_string(),
///     "candle has no dtype for elements of bool; convert them to one that it has, such as uint8 or float32"
/// );
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    Tensor(dlbridge::Error),
    /// What candle refuses.
    Candle(candle_core::Error),
    /// Candle has no such elements.
    DataType {
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// Candle keeps such elements as bytes, and does not say how.
    DType {
        /// The dtype of candle's tensor.
        dtype: DType,
    },
    /// The tensor of candle is not in main memory.
    NotOnCpu {
        /// Where it is.
        location: DeviceLocation,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(error) => error.fmt(f),
            Self::Candle(error) => write!(f, "candle: {error}"),
            Self::DataType { dtype } => write!(
                f,
                "candle has no dtype for elements of {dtype}; convert them to one that it has, such as uint8 or \
                 float32"
            ),
            Self::DType { dtype } => write!(
                f,
                "candle keeps {} as bytes and does not say how elements lie in them; convert them to a dtype with \
                 which it computes",
                dtype.as_str()
            ),
            Self::NotOnCpu { location } => write!(
                f,
                "the tensor of candle is on {location:?}, and not in main memory; move it there with \
                 to_device(&Device::Cpu)"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Tensor(error) => Some(error),
            Self::Candle(error) => Some(error),
            _ => None,
        }
    }
}

impl From<dlbridge::Error> for Error {
    fn from(error: dlbridge::Error) -> Self {
        Self::Tensor(error)
    }
}

impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        Self::Candle(error)
    }
}
