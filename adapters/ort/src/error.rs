//! Errors of the conversions.

use dlbridge::DataType;
use ort::value::TensorElementType;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a value cannot become a tensor, or a tensor a value.
///
/// ```
/// use dlbridge::{DataType, Tensor};
/// use dlbridge_ort::{Error, TensorExt};
///
/// let wide = Tensor::zeroed(DataType::INT128, [2])?;
/// let error = wide.into_value().unwrap_err();
/// assert!(matches!(error, Error::DataType { dtype: DataType::INT128 }));
/// assert_eq!(error.to_string(), "the elements are int128, which ONNX Runtime lacks; convert them to a dtype that it has, such as float32");
/// # Ok::<(), dlbridge::Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The error of the tensor itself.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// The error of ONNX Runtime.
    #[error("ONNX Runtime: {0}")]
    Ort(#[from] ort::Error),
    /// The library of ONNX Runtime cannot be opened, or is too old.
    #[error(
        "the library of ONNX Runtime cannot be used: {reason}; name one of version 1.{} or later in ORT_DYLIB_PATH",
        ort::MINOR_VERSION
    )]
    Library {
        /// The loader's message.
        reason: String,
    },
    /// ONNX Runtime lacks such elements.
    #[error(
        "the elements are {dtype}, which ONNX Runtime lacks; convert them to a dtype that it has, such as float32"
    )]
    DataType {
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// DLPack lacks such elements.
    #[error("the elements are ONNX Runtime's {element}, which DLPack lacks; extract them with ort")]
    ElementType {
        /// The type of the value's elements.
        element: TensorElementType,
    },
    /// The value is a sequence, a map, optional or sparse.
    #[error("the value is {kind}, not a tensor; take tensors out of it with ort")]
    NotATensor {
        /// The type of the value.
        kind: String,
    },
    /// The CPU cannot read the value.
    #[error(
        "the value is on the device {name}, where the CPU cannot read it; bind the output to the CPU"
    )]
    Device {
        /// ONNX Runtime's name of the device.
        name: String,
    },
    /// Sub-byte elements are padded to one byte each; ONNX Runtime needs them packed.
    #[error(
        "each element of {dtype} takes a whole byte, but ONNX Runtime needs them packed; copy the tensor with to_value"
    )]
    SubbytePadded {
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// Other code may write bytes to the memory that are not values of `bool`.
    #[error(
        "others may write bytes that are not bool values into this tensor (its access is {access:?}); copy it with \
         to_value, or promise with the unsafe Tensor::assume_immutable that nothing writes it"
    )]
    UnstableBool {
        /// The access of the tensor: shared or read-only.
        access: dlbridge::Access,
    },
}
