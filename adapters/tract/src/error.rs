//! What can go wrong.

use std::fmt;

use dlbridge::DataType;
use tract_data::prelude::DatumType;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a tensor of tract is no tensor, or a tensor none of tract.
///
/// ```
/// use dlbridge_tract::{Error, TractExt};
/// use tract_data::prelude::{DatumType, tensor0};
///
/// let error = tensor0("words".to_string()).into_dlbridge().unwrap_err();
/// assert_eq!(error, Error::DatumType { datum_type: DatumType::String });
/// assert_eq!(error.to_string(), "no dtype is tract's String; cast the tensor to a type of plain numbers");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    Tensor(dlbridge::Error),
    /// No dtype has the meaning of the datum type.
    DatumType {
        /// The datum type found.
        datum_type: DatumType,
    },
    /// No datum type has the meaning of the dtype.
    DataType {
        /// The dtype found.
        dtype: DataType,
    },
    /// The elements are not in plain memory: they are packed for a kernel, or on a device.
    NotPlain,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(error) => error.fmt(f),
            Self::DatumType { datum_type } => write!(
                f,
                "no dtype is tract's {datum_type:?}; cast the tensor to a type of plain numbers"
            ),
            Self::DataType { dtype } => {
                write!(f, "no datum type of tract is {dtype}; convert the elements first")
            }
            Self::NotPlain => f.write_str(
                "the elements are not in plain memory; call into_plain_ram of tract's tensor first",
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
