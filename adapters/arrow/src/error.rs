//! What can go wrong.

use arrow_schema::{ArrowError, DataType};

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an array is no tensor, or a tensor no array.
///
/// ```
/// use arrow_array::Int32Array;
/// use dlbridge_arrow::{ArrayExt, Error};
///
/// let error = Int32Array::from(vec![Some(1), None]).into_tensor().unwrap_err();
/// assert!(matches!(error, Error::Nulls { count: 1 }));
/// assert_eq!(error.to_string(), "1 of the values is null, which a tensor cannot say; fill the nulls in first");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// What Arrow refuses.
    #[error("{0}")]
    Arrow(#[from] ArrowError),
    /// There are nulls.
    #[error(
        "{count} of the values {} null, which a tensor cannot say; fill the nulls in first",
        if *count == 1 { "is" } else { "are" }
    )]
    Nulls {
        /// How many.
        count: usize,
    },
    /// The booleans of Arrow are bits; those of a tensor are bytes.
    #[error(
        "the booleans of Arrow are bits, and those of a tensor bytes; copy them, with to_tensor or to_array"
    )]
    Bits,
    /// A tensor has no dtype for what the array holds.
    #[error("a tensor has no dtype for {data_type}; cast the array first")]
    Unsupported {
        /// The type of the array.
        data_type: DataType,
    },
    /// The values are numbers that mean something else, which a tensor cannot say.
    #[error(
        "a tensor cannot say that numbers mean {data_type}; cast them to integers first (of an array, reinterpret_cast \
         copies nothing), or take them as such with into_storage_tensor"
    )]
    Meaning {
        /// The type of the array.
        data_type: DataType,
    },
    /// The values are other ones than the times of the elements.
    #[error(
        "expected {expected}, got {found}; name the elements of that unit, or cast the array first"
    )]
    OtherTimes {
        /// The type of Arrow for the elements.
        expected: DataType,
        /// The type of the array.
        found: DataType,
    },
    /// Arrow has no numbers of the tensor's dtype.
    #[error("Arrow has no numbers of dtype {dtype}; convert the tensor first")]
    NoArrowType {
        /// The dtype of the tensor.
        dtype: dlbridge::DataType,
    },
    /// The metadata of a fixed-shape tensor is not what the format asks for, or does not fit the array.
    #[error("the metadata of arrow.fixed_shape_tensor is wrong: {reason}; fix the field")]
    Metadata {
        /// What is wrong.
        reason: String,
    },
    /// One value of a fixed-shape tensor has more numbers than a list of Arrow can.
    #[error(
        "each index of the first dimension has {len} elements, and a list of Arrow at most {}; take a slice",
        i32::MAX
    )]
    ListSize {
        /// How many, in all dimensions but the first.
        len: usize,
    },
    /// A batch has no columns, so it has no dtype.
    #[error("the batch has no columns, and so no dtype; add one")]
    NoColumns,
    /// The columns of a batch are of different types.
    #[error("column {column} holds {found} and column 0 holds {first}; cast them to one type")]
    ColumnTypes {
        /// The first column of another type than column 0.
        column: usize,
        /// The type of column 0.
        first: DataType,
        /// Its own.
        found: DataType,
    },
    /// The columns of a batch are in different allocations.
    #[error(
        "column {column} is in another allocation than column 0, so no strides lead to both; copy the batch, with \
         to_tensor, for which dates and the like are cast to integers first"
    )]
    OtherAllocation {
        /// The first column in another allocation than column 0.
        column: usize,
    },
    /// The columns of a batch are in one allocation, but not at equal distances of whole elements.
    #[error(
        "column {column} begins {found} bytes after the one before it, and column 1 {expected} after column 0, so no \
         stride leads through all; copy the batch, with to_tensor, for which dates and the like are cast to integers \
         first"
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
        "one row is {stride} elements from the next, and the elements of a column of Arrow are adjacent; copy the \
         tensor, with to_record_batch"
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
