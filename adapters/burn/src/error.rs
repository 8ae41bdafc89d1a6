//! What can go wrong.

use burn_std::DType;
use dlbridge::DataType;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a tensor of burn is no tensor, or a tensor none of burn.
///
/// ```
/// use dlbridge::{DataType, Tensor};
/// use dlbridge_burn::{Error, TensorExt};
///
/// let tensor = Tensor::zeroed(DataType::COMPLEX64, [2])?;
/// let error = tensor.into_flex().unwrap_err();
/// assert_eq!(error, Error::DataType { dtype: DataType::COMPLEX64 });
/// assert_eq!(error.to_string(), "burn has no dtype for elements of complex64; convert them to one that it has");
/// # Ok::<(), dlbridge::Error>(())
/// ```
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// Burn has no such elements.
    #[error("burn has no dtype for elements of {dtype}; convert them to one that it has")]
    DataType {
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// DLPack has no such elements.
    #[error("DLPack has no dtype for elements of {dtype:?}; cast the tensor of burn")]
    DType {
        /// The dtype of burn's tensor.
        dtype: DType,
    },
    /// The tensor of burn is of another kind.
    #[error("{dtype} is not a {kind} tensor; request the matching kind")]
    Kind {
        /// The kind asked for.
        kind: &'static str,
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// There are bytes between the elements, which other code may own.
    #[error(
        "there are gaps between the elements, which burn would take for the tensor's; copy it with to_flex"
    )]
    Gaps,
    /// Burn cannot read the bytes of its tensor, such as those of a file that is not there; in burn's words.
    #[error("burn cannot read the bytes of its tensor ({message}); check where they come from")]
    Unreadable {
        /// What burn says.
        message: String,
    },
    /// The tensor of burn is on another backend, or tracked for gradients; in burn's words.
    #[error(
        "the tensor of burn is not one of the Flex backend ({message}); bring it to Device::flex(), and take it out of \
         autodiff with inner()"
    )]
    NotFlex {
        /// What burn says.
        message: String,
    },
}
