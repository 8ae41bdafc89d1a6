//! What can go wrong.

use std::fmt;

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
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    Tensor(dlbridge::Error),
    /// Burn has no such elements.
    DataType {
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// DLPack has no such elements.
    DType {
        /// The dtype of burn's tensor.
        dtype: DType,
    },
    /// The tensor of burn is of another kind.
    Kind {
        /// The kind asked for.
        kind: &'static str,
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// There are bytes between the elements, which may be somebody else's.
    Gaps,
    /// Burn cannot read the bytes of its tensor, such as those of a file that is not there; in burn's words.
    Unreadable {
        /// What burn says.
        message: String,
    },
    /// The tensor of burn is on another backend, or tracked for gradients; in burn's words.
    NotFlex {
        /// What burn says.
        message: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(error) => error.fmt(f),
            Self::DataType { dtype } => write!(
                f,
                "burn has no dtype for elements of {dtype}; convert them to one that it has"
            ),
            Self::DType { dtype } => {
                write!(f, "DLPack has no dtype for elements of {dtype:?}; cast the tensor of burn")
            }
            Self::Kind { kind, dtype } => write!(
                f,
                "elements of {dtype} are no tensor of the kind {kind}; ask for the kind that they are"
            ),
            Self::Gaps => f.write_str(
                "there are gaps between the elements, which burn would take for the tensor's; copy it with to_flex",
            ),
            Self::Unreadable { message } => write!(
                f,
                "burn cannot read the bytes of its tensor ({message}); see to what they are made of"
            ),
            Self::NotFlex { message } => write!(
                f,
                "the tensor of burn is not one of the Flex backend ({message}); bring it to Device::flex(), and take \
                 it out of autodiff with inner()"
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
