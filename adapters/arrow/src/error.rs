//! What can go wrong.

use std::fmt;

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
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    Tensor(dlbridge::Error),
    /// What Arrow refuses.
    Arrow(ArrowError),
    /// There are nulls.
    Nulls {
        /// How many.
        count: usize,
    },
    /// The booleans of Arrow are bits; those of a tensor are bytes.
    Bits,
    /// A tensor has no dtype for what the array holds.
    Unsupported {
        /// The type of the array.
        data_type: DataType,
    },
    /// The values are numbers that mean something else, which a tensor cannot say.
    Meaning {
        /// The type of the array.
        data_type: DataType,
    },
    /// The values are other ones than the times of the elements.
    OtherTimes {
        /// The type of Arrow for the elements.
        expected: DataType,
        /// The type of the array.
        found: DataType,
    },
    /// Arrow has no numbers of the tensor's dtype.
    NoArrowType {
        /// The dtype of the tensor.
        dtype: dlbridge::DataType,
    },
    /// The metadata of a fixed-shape tensor is not what the format asks for, or does not fit the array.
    Metadata {
        /// What is wrong.
        reason: String,
    },
    /// One value of a fixed-shape tensor has more numbers than a list of Arrow can.
    ListSize {
        /// How many, in all dimensions but the first.
        len: usize,
    },
    /// A batch has no columns, so it has no dtype.
    NoColumns,
    /// The columns of a batch are of different types.
    ColumnTypes {
        /// The first column of another type than column 0.
        column: usize,
        /// The type of column 0.
        first: DataType,
        /// Its own.
        found: DataType,
    },
    /// The columns of a batch are in different allocations.
    OtherAllocation {
        /// The first column in another allocation than column 0.
        column: usize,
    },
    /// The columns of a batch are in one allocation, but not at equal distances of whole elements.
    UnevenColumns {
        /// The first column at another distance from the one before it.
        column: usize,
        /// The distance from column 0 to column 1, in bytes.
        expected: isize,
        /// The distance from the column before it, in bytes.
        found: isize,
    },
    /// The elements of a column are not adjacent.
    RowStride {
        /// How many elements one row is from the next.
        stride: i64,
    },
    /// There are more or fewer names than columns.
    NameCount {
        /// The number of names.
        names: usize,
        /// The number of columns.
        columns: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(error) => error.fmt(f),
            Self::Arrow(error) => error.fmt(f),
            Self::Nulls { count } => {
                let are = if *count == 1 { "is" } else { "are" };
                write!(
                    f,
                    "{count} of the values {are} null, which a tensor cannot say; fill the nulls in first"
                )
            }
            Self::Bits => f.write_str(
                "the booleans of Arrow are bits, and those of a tensor bytes; copy them, with to_tensor or to_array",
            ),
            Self::Unsupported { data_type } => {
                write!(f, "a tensor has no dtype for {data_type}; cast the array first")
            }
            Self::Meaning { data_type } => write!(
                f,
                "a tensor cannot say that numbers mean {data_type}; cast them to integers first (of an array, \
                 reinterpret_cast copies nothing), or take them as such with into_storage_tensor"
            ),
            Self::OtherTimes { expected, found } => {
                write!(f, "expected {expected}, got {found}; name the elements of that unit, or cast the array first")
            }
            Self::NoArrowType { dtype } => {
                write!(f, "Arrow has no numbers of dtype {dtype}; convert the tensor first")
            }
            Self::Metadata { reason } => write!(
                f,
                "the metadata of arrow.fixed_shape_tensor is wrong: {reason}; mend the field"
            ),
            Self::ListSize { len } => write!(
                f,
                "each index of the first axis has {len} elements, and a list of Arrow at most {}; take a part",
                i32::MAX
            ),
            Self::NoColumns => f.write_str("the batch has no columns, and so no dtype; add one"),
            Self::ColumnTypes { column, first, found } => write!(
                f,
                "column {column} holds {found} and column 0 holds {first}; cast them to one type"
            ),
            Self::OtherAllocation { column } => write!(
                f,
                "column {column} is in another allocation than column 0, so no strides lead to both; copy \
                 the batch, with to_tensor, for which dates and the like are cast to integers first"
            ),
            Self::UnevenColumns { column, expected, found } => write!(
                f,
                "column {column} begins {found} bytes after the one before it, and column 1 {expected} after \
                 column 0, so no stride leads through all; copy the batch, with to_tensor, for which dates and \
                 the like are cast to integers first"
            ),
            Self::RowStride { stride } => write!(
                f,
                "one row is {stride} elements from the next, and the elements of a column of Arrow are \
                 adjacent; copy the tensor, with to_record_batch"
            ),
            Self::NameCount { names, columns } => {
                write!(f, "{names} names are given for {columns} columns; give one for each")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Tensor(error) => Some(error),
            Self::Arrow(error) => Some(error),
            _ => None,
        }
    }
}

impl From<dlbridge::Error> for Error {
    fn from(error: dlbridge::Error) -> Self {
        Self::Tensor(error)
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}
