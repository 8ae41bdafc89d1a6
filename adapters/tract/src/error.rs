//! What can go wrong.

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
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// No dtype has the meaning of the datum type.
    #[error("no dtype is tract's {datum_type:?}; cast the tensor to a type of plain numbers")]
    DatumType {
        /// The datum type found.
        datum_type: DatumType,
    },
    /// No datum type has the meaning of the dtype.
    #[error("no datum type of tract is {dtype}; convert the elements first")]
    DataType {
        /// The dtype found.
        dtype: DataType,
    },
    /// The elements are not in plain memory: they are packed for a kernel, or on a device.
    #[error("the elements are not in plain memory; call into_plain_ram of tract's tensor first")]
    NotPlain,
}
