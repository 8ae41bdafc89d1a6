//! Errors of the conversions.

use burn_std::DType;
use dlbridge::DataType;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a tensor of burn cannot become a tensor, or a tensor one of burn.
///
/// ```
/// use dlbridge::{DataType, Tensor};
/// use dlbridge_burn::{Error, TensorExt};
///
/// let tensor = Tensor::zeroed(DataType::COMPLEX64, [2])?;
/// let error = tensor.into_flex().unwrap_err();
/// assert_eq!(error, Error::DataType { dtype: DataType::COMPLEX64 });
/// assert_eq!(error.to_string(), "the elements are complex64, which burn lacks; convert them to a dtype that it has, such as float32");
/// # Ok::<(), dlbridge::Error>(())
/// ```
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The error of the tensor itself.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// Burn lacks such elements.
    #[error(
        "the elements are {dtype}, which burn lacks; convert them to a dtype that it has, such as float32"
    )]
    DataType {
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// DLPack lacks such elements.
    #[error(
        "the elements are {dtype:?}, which DLPack lacks; cast the tensor of burn to another dtype first, such as F32"
    )]
    DType {
        /// The dtype of burn's tensor.
        dtype: DType,
    },
    /// The tensor of burn is of another kind.
    #[error("{dtype} is not a {kind} tensor; request the matching kind")]
    Kind {
        /// The requested kind.
        kind: &'static str,
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// The elements have gaps between them, and other code may own the bytes in the gaps.
    #[error(
        "the elements have gaps between them, which burn would treat as the tensor's own memory; copy it with to_flex"
    )]
    Gaps,
    /// Burn cannot read the bytes of its tensor, such as those of a missing file; in burn's words.
    #[error("burn cannot read the bytes of its tensor ({message}); check where they come from")]
    Unreadable {
        /// The message of burn.
        message: String,
    },
    /// The tensor of burn is on another backend, or tracked for gradients; in burn's words.
    #[error(
        "the tensor of burn is not one of the Flex backend ({message}); bring it to Device::flex(), and take it out of \
         autodiff with inner()"
    )]
    NotFlex {
        /// The message of burn.
        message: String,
    },
}
