//! Errors of the conversions.

use dlbridge::DataType;
use tract_data::prelude::DatumType;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a tensor of tract cannot become a tensor, or a tensor one of tract.
///
/// ```
/// use dlbridge_tract::{Error, TractExt};
/// use tract_data::prelude::{DatumType, tensor0};
///
/// let error = tensor0("words".to_string()).into_dlbridge().unwrap_err();
/// assert_eq!(error, Error::DatumType { datum_type: DatumType::String });
/// assert_eq!(error.to_string(), "the elements are tract's String, which DLPack lacks; cast the tensor to numbers first, such as F32");
/// ```
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The error of the tensor itself.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// DLPack lacks a dtype for the datum type.
    #[error(
        "the elements are tract's {datum_type:?}, which DLPack lacks; cast the tensor to numbers first, such as F32"
    )]
    DatumType {
        /// The datum type found.
        datum_type: DatumType,
    },
    /// Tract lacks a datum type for the dtype.
    #[error(
        "the elements are {dtype}, which tract lacks; convert them to a dtype that it has, such as float32"
    )]
    DataType {
        /// The dtype found.
        dtype: DataType,
    },
    /// The elements are not in plain memory: they are packed for a kernel, or on a device.
    #[error("the elements are not in plain memory; call into_plain_ram of tract's tensor first")]
    NotPlain,
}
