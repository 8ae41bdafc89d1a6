//! Errors of the conversions.

use polars_core::datatypes::DataType;
use polars_core::error::PolarsError;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a series cannot become a tensor, or a tensor a series.
///
/// ```
/// use dlbridge_polars::{Error, SeriesExt};
/// use polars_core::prelude::*;
///
/// let error = Series::new("a".into(), [Some(1), None]).into_tensor().unwrap_err();
/// assert!(matches!(error, Error::Nulls { count: 1 }));
/// assert_eq!(error.to_string(), "1 of the values is null, which a tensor cannot represent; fill the nulls in first");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The error of the tensor itself.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// The error of Polars.
    #[error("{0}")]
    Polars(#[from] PolarsError),
    /// The series has nulls, which a tensor cannot represent.
    #[error(
        "{count} of the values {} null, which a tensor cannot represent; fill the nulls in first",
        if *count == 1 { "is" } else { "are" }
    )]
    Nulls {
        /// The number of nulls.
        count: usize,
    },
    /// The values are in several chunks of memory.
    #[error(
        "the values are in {count} chunks, and a tensor is one piece of memory; copy them with to_tensor, or take one \
         tensor for each with into_tensors of a series (cast dates, times and durations to integers first, with \
         to_physical_repr)"
    )]
    Chunks {
        /// The number of chunks with values.
        count: usize,
    },
    /// Polars stores booleans as bits, a tensor as bytes.
    #[error(
        "the booleans of Polars are bits, and those of a tensor bytes; copy them, with to_tensor, to_series or \
         to_data_frame"
    )]
    Bits,
    /// DLPack lacks a dtype for the values of the series.
    #[error("the values are {data_type}, which DLPack lacks; cast the series to numbers first")]
    Unsupported {
        /// The type of the series.
        data_type: DataType,
    },
    /// The numbers have a meaning that a tensor cannot record.
    #[error(
        "a tensor cannot record that numbers mean {data_type}; cast the series or column to integers first, with \
         to_physical_repr, or take one chunk of a series as such with into_storage_tensor"
    )]
    Meaning {
        /// The type of the series.
        data_type: DataType,
    },
    /// Polars lacks a numeric type for the tensor's dtype.
    #[error(
        "the elements are {dtype}, which Polars lacks; convert them to a dtype that it has, such as float32"
    )]
    NoPolarsType {
        /// The dtype of the tensor.
        dtype: dlbridge::DataType,
    },
    /// The data frame has no columns, so it does not have a dtype.
    #[error("the data frame has no columns, and so no dtype; add a column")]
    NoColumns,
    /// The columns of the data frame have different types.
    #[error("column {column} holds {found} and column 0 holds {first}; cast them to one type")]
    ColumnTypes {
        /// The first column whose type differs from that of column 0.
        column: usize,
        /// The type of column 0.
        first: DataType,
        /// The type of that column.
        found: DataType,
    },
    /// The columns of the data frame are in different allocations.
    #[error(
        "column {column} is in another allocation than column 0, so no strides lead to both; copy the data frame, with \
         to_tensor"
    )]
    OtherAllocation {
        /// The first column in another allocation than column 0.
        column: usize,
    },
    /// The columns are in one allocation, but not at equal distances.
    #[error(
        "column {column} begins {found} bytes after the one before it, and column 1 {expected} after column 0, so no \
         stride leads through all; copy the data frame, with to_tensor"
    )]
    UnevenColumns {
        /// The first column whose distance from the column before it differs.
        column: usize,
        /// The distance from column 0 to column 1, in bytes.
        expected: isize,
        /// The distance from the column before it, in bytes.
        found: isize,
    },
    /// The elements of a column are not contiguous.
    #[error(
        "one row is {stride} elements from the next, but the elements of a Polars column must be contiguous; copy the \
         tensor, with to_data_frame or to_series"
    )]
    RowStride {
        /// The stride from one row to the next, in elements.
        stride: i64,
    },
    /// The number of names is not the number of columns.
    #[error("{names} names are given for {columns} columns; give one for each")]
    NameCount {
        /// The number of names.
        names: usize,
        /// The number of columns.
        columns: usize,
    },
}
