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
/// assert_eq!(error.to_string(), "ONNX Runtime has no elements of int128; convert them to a type that it has");
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
        "there is no library of ONNX Runtime to use: {reason}; name one of version 1.{} or later in ORT_DYLIB_PATH",
        ort::MINOR_VERSION
    )]
    Library {
        /// The loader's message.
        reason: String,
    },
    /// ONNX Runtime has no such elements.
    #[error("ONNX Runtime has no elements of {dtype}; convert them to a type that it has")]
    DataType {
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// DLPack has no such elements.
    #[error("DLPack has no elements of ONNX Runtime's type {element}; extract them with ort")]
    ElementType {
        /// The type of the value's elements.
        element: TensorElementType,
    },
    /// The value is a sequence, a map, optional or sparse.
    #[error("the value is {kind}, and no tensor; take tensors out of it with ort")]
    NotATensor {
        /// The type of the value.
        kind: String,
    },
    /// The CPU cannot read the value.
    #[error(
        "the value is on the device {name}, where the CPU cannot read it; bind the output to the CPU"
    )]
    Device {
        /// The name that ONNX Runtime gives to where it is.
        name: String,
    },
    /// Each element narrower than a byte takes a whole one; ONNX Runtime has them packed.
    #[error(
        "each element of {dtype} takes a whole byte, and ONNX Runtime has them packed; copy the tensor with to_value"
    )]
    SubbytePadded {
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// Others may write bytes there that are not values of `bool`.
    #[error(
        "others may write bytes that are not bool values into this tensor (its access is {access:?}); copy it with \
         to_value, or promise with the unsafe Tensor::assume_immutable that nothing writes it"
    )]
    UnstableBool {
        /// The access of the tensor: shared or read-only.
        access: dlbridge::Access,
    },
}
