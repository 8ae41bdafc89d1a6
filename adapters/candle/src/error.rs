//! Errors of the conversions.

use candle_core::{DType, DeviceLocation};
use dlbridge::DataType;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a tensor of candle cannot become a tensor, or a tensor one of candle.
///
/// ```
/// use dlbridge::{DataType, Tensor};
/// use dlbridge_candle::{Error, TensorExt};
///
/// let error = Tensor::from(vec![true, false]).into_candle().unwrap_err();
/// assert!(matches!(error, Error::DataType { dtype: DataType::BOOL }));
/// assert_eq!(
///     error.to_string(),
///     "the elements are bool, which candle lacks; convert them to a dtype that it has, such as uint8 or float32"
/// );
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The error of the tensor itself.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// The error of candle.
    #[error("candle: {0}")]
    Candle(#[from] candle_core::Error),
    /// Candle lacks such elements.
    #[error(
        "the elements are {dtype}, which candle lacks; convert them to a dtype that it has, such as uint8 or float32"
    )]
    DataType {
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// Candle stores such elements as bytes without a documented layout.
    #[error(
        "candle keeps {} as bytes and does not say how elements lie in them; convert them to a dtype that it \
         computes with",
        .dtype.as_str()
    )]
    DType {
        /// The dtype of candle's tensor.
        dtype: DType,
    },
    /// The tensor of candle is on another device than the CPU.
    #[error(
        "the tensor of candle is on {location:?}, and not in main memory; move it there with to_device(&Device::Cpu)"
    )]
    NotOnCpu {
        /// The device.
        location: DeviceLocation,
    },
}
