//! Errors of the conversions.

use arrow_schema::{ArrowError, DataType};

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why an array cannot become a tensor, or a tensor an array.
///
/// ```
/// use arrow_array::Int32Array;
/// use dlbridge_arrow::{ArrayExt, Error};
///
/// let error = Int32Array::from(vec![Some(1), None]).into_tensor().unwrap_err();
/// assert!(matches!(error, Error::Nulls { count: 1 }));
/// assert_eq!(error.to_string(), "1 of the values is null, which a tensor cannot represent; fill the nulls in first");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The error of the tensor itself.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// The error of Arrow.
    #[error("{0}")]
    Arrow(#[from] ArrowError),
    /// The array has nulls, which a tensor cannot represent.
    #[error(
        "{count} of the values {} null, which a tensor cannot represent; fill the nulls in first",
        if *count == 1 { "is" } else { "are" }
    )]
    Nulls {
        /// The number of nulls.
        count: usize,
    },
    /// Arrow stores booleans as bits, a tensor as bytes.
    #[error(
        "the booleans of Arrow are bits, and those of a tensor bytes; copy them, with to_tensor or to_array"
    )]
    Bits,
    /// DLPack lacks a dtype for the values of the array.
    #[error("the values are {data_type}, which DLPack lacks; cast the array to numbers first")]
    Unsupported {
        /// The type of the array.
        data_type: DataType,
    },
    /// The numbers have a meaning that a tensor cannot record.
    #[error(
        "a tensor cannot record that numbers mean {data_type}; cast them to integers first (of an array, \
         reinterpret_cast copies nothing), or take them as such with into_storage_tensor"
    )]
    Meaning {
        /// The type of the array.
        data_type: DataType,
    },
    /// The array has another type, unit or time zone than the requested elements.
    #[error(
        "expected {expected}, got {found}; name the elements of that unit, or cast the array first"
    )]
    OtherTimes {
        /// Arrow's type for the requested elements.
        expected: DataType,
        /// The type of the array.
        found: DataType,
    },
    /// Arrow lacks a numeric type for the tensor's dtype.
    #[error(
        "the elements are {dtype}, which Arrow lacks; convert them to a dtype that it has, such as float32"
    )]
    NoArrowType {
        /// The dtype of the tensor.
        dtype: dlbridge::DataType,
    },
    /// The metadata of a fixed-shape tensor breaks the format, or does not fit the array.
    #[error("the metadata of arrow.fixed_shape_tensor is wrong: {reason}; fix the field")]
    Metadata {
        /// The reason.
        reason: String,
    },
    /// One value of a fixed-shape tensor has more elements than a list of Arrow can hold.
    #[error(
        "each index of the first dimension has {len} elements, and a list of Arrow at most {}; take a slice",
        i32::MAX
    )]
    ListSize {
        /// The number of elements in all dimensions except the first.
        len: usize,
    },
    /// The offsets of lists decrease, are negative, or exceed the values.
    #[error("the offsets of the lists are wrong: {reason}; fix them")]
    Offsets {
        /// The reason.
        reason: String,
    },
    /// The batch lacks columns, so it does not have a dtype.
    #[error("the batch has no columns, and so no dtype; add a column")]
    NoColumns,
    /// The columns of the batch have different types.
    #[error("column {column} holds {found} and column 0 holds {first}; cast them to one type")]
    ColumnTypes {
        /// The first column whose type differs from that of column 0.
        column: usize,
        /// The type of column 0.
        first: DataType,
        /// The type of that column.
        found: DataType,
    },
    /// The columns of the batch are in different allocations.
    #[error(
        "column {column} is in another allocation than column 0, so no strides lead to both; copy the batch, with \
         to_tensor (cast dates, times and durations to integers first)"
    )]
    OtherAllocation {
        /// The first column in another allocation than column 0.
        column: usize,
    },
    /// The columns are in one allocation, but not at equal distances of whole elements.
    #[error(
        "column {column} begins {found} bytes after the one before it, and column 1 {expected} after column 0, so no \
         stride leads through all; copy the batch, with to_tensor (cast dates, times and durations to integers first)"
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
        "one row is {stride} elements from the next, but the elements of an Arrow column must be contiguous; copy the \
         tensor, with to_record_batch"
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
