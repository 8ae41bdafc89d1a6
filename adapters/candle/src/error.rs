//! What can go wrong.

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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// What candle refuses.
    #[error("candle: {0}")]
    Candle(#[from] candle_core::Error),
    /// Candle has no such elements.
    #[error(
        "candle has no dtype for elements of {dtype}; convert them to one that it has, such as uint8 or float32"
    )]
    DataType {
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// Candle keeps such elements as bytes, and does not say how.
    #[error(
        "candle keeps {} as bytes and does not say how elements lie in them; convert them to a dtype that it \
         computes with",
        .dtype.as_str()
    )]
    DType {
        /// The dtype of candle's tensor.
        dtype: DType,
    },
    /// The tensor of candle is not in main memory.
    #[error(
        "the tensor of candle is on {location:?}, and not in main memory; move it there with to_device(&Device::Cpu)"
    )]
    NotOnCpu {
        /// Where it is.
        location: DeviceLocation,
    },
}
