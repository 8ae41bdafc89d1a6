//! What can go wrong.

use polars_core::datatypes::DataType;
use polars_core::error::PolarsError;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a series is no tensor, or a tensor no series.
///
/// ```
/// use dlbridge_polars::{Error, SeriesExt};
/// use polars_core::prelude::*;
///
/// let error = Series::new("a".into(), [Some(1), None]).into_tensor().unwrap_err();
/// assert!(matches!(error, Error::Nulls { count: 1 }));
/// assert_eq!(error.to_string(), "1 of the values is null, which a tensor cannot say; fill the nulls in first");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// What Polars refuses.
    #[error("{0}")]
    Polars(#[from] PolarsError),
    /// There are nulls.
    #[error(
        "{count} of the values {} null, which a tensor cannot say; fill the nulls in first",
        if *count == 1 { "is" } else { "are" }
    )]
    Nulls {
        /// How many.
        count: usize,
    },
    /// The values are in several pieces of memory.
    #[error(
        "the values are in {count} chunks, and a tensor is one piece of memory; copy them with to_tensor, or take one \
         tensor for each with into_tensors of a series; dates and the like are cast to integers first, with \
         to_physical_repr"
    )]
    Chunks {
        /// How many chunks have values.
        count: usize,
    },
    /// The booleans of Polars are bits; those of a tensor are bytes.
    #[error(
        "the booleans of Polars are bits, and those of a tensor bytes; copy them, with to_tensor, to_series or \
         to_data_frame"
    )]
    Bits,
    /// A tensor has no dtype for what the series holds.
    #[error("a tensor has no dtype for {data_type}; cast the series first")]
    Unsupported {
        /// The type of the series.
        data_type: DataType,
    },
    /// The values are numbers that mean something else, which a tensor cannot say.
    #[error(
        "a tensor cannot say that numbers mean {data_type}; cast the series or column to integers first, with \
         to_physical_repr, or take one chunk of a series as such with into_storage_tensor"
    )]
    Meaning {
        /// The type of the series.
        data_type: DataType,
    },
    /// Polars has no numbers of the tensor's dtype.
    #[error("Polars has no numbers of dtype {dtype}; convert the tensor first")]
    NoPolarsType {
        /// The dtype of the tensor.
        dtype: dlbridge::DataType,
    },
    /// A data frame has no columns, so it has no dtype.
    #[error("the data frame has no columns, and so no dtype; add one")]
    NoColumns,
    /// The columns of a data frame are of different types.
    #[error("column {column} holds {found} and column 0 holds {first}; cast them to one type")]
    ColumnTypes {
        /// The first column of another type than column 0.
        column: usize,
        /// The type of column 0.
        first: DataType,
        /// Its own.
        found: DataType,
    },
    /// The columns of a data frame are in different allocations.
    #[error(
        "column {column} is in another allocation than column 0, so no strides lead to both; copy the data frame, with \
         to_tensor"
    )]
    OtherAllocation {
        /// The first column in another allocation than column 0.
        column: usize,
    },
    /// The columns of a data frame are in one allocation, but not at equal distances.
    #[error(
        "column {column} begins {found} bytes after the one before it, and column 1 {expected} after column 0, so no \
         stride leads through all; copy the data frame, with to_tensor"
    )]
    UnevenColumns {
        /// The first column at another distance from the one before it.
        column: usize,
        /// The distance from column 0 to column 1, in bytes.
        expected: isize,
        /// The distance from the column before it, in bytes.
        found: isize,
    },
    /// The elements of a column are not adjacent.
    #[error(
        "one row is {stride} elements from the next, and the elements of a column of Polars are adjacent; copy the \
         tensor, with to_data_frame or to_series"
    )]
    RowStride {
        /// How many elements one row is from the next.
        stride: i64,
    },
    /// There are more or fewer names than columns.
    #[error("{names} names are given for {columns} columns; give one for each")]
    NameCount {
        /// The number of names.
        names: usize,
        /// The number of columns.
        columns: usize,
    },
}
