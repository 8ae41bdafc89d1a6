//! The reason for a copy.

use core::fmt;

/// Why elements were copied.
///
/// This crate's conversions and `dlbridge-pyo3`'s imports from Python share this type.
///
/// ```
/// use dlbridge::{CopyReason, Tensor};
///
/// let columns = Tensor::from_parts_strided(vec![1, 2, 3, 4], [2, 2], [1, 2], 0)?;
/// let (rows, copied) = columns.into_contiguous()?;
/// assert_eq!(copied, Some(CopyReason::NotContiguous));
/// assert_eq!(rows.view::<i32>()?.as_slice(), Some(&[1, 3, 2, 4][..]));
/// assert_eq!(CopyReason::Requested.to_string(), "a copy was requested");
/// # Ok::<(), dlbridge::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyReason {
    /// The elements were not contiguous in C order.
    NotContiguous,
    /// The elements were not contiguous in Fortran order.
    NotFortranContiguous,
    /// The data did not have the requested alignment.
    Misaligned {
        /// The address of the first element.
        address: usize,
        /// The requested alignment, in bytes.
        required: usize,
    },
    /// The data must not be written.
    ReadOnly,
    /// Another user may read or write the data too.
    Shared,
    /// Two indices lead to the same element.
    Overlapping,
    /// The caller requested a copy, for example with `copy=True`.
    Requested,
    /// The producer reported that it copied the data or moved it to another device.
    Producer,
    /// The caller requested data on the CPU, and it was in memory of another device.
    Device,
    /// The numbers were not in this machine's byte order.
    ByteOrder,
    /// The strides were not multiples of the element size.
    ByteStrides,
    /// The elements were packed eight to a byte, and are whole bytes now.
    BitPacked,
    /// Some booleans were neither 0 nor 1, and are 1 now.
    InvalidBooleans,
    /// Some elements were null, and have another value now: times are `NaT`.
    Nulls,
    /// The elements were in several chunks of memory, and are contiguous now.
    SeveralChunks,
    /// The elements had another dtype, and were converted.
    Converted,
}

impl fmt::Display for CopyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::NotContiguous => "the elements were not contiguous in C order",
            Self::NotFortranContiguous => "the elements were not contiguous in Fortran order",
            Self::Misaligned { address, required } => {
                return write!(f, "the data at {address:#x} was not aligned to {required} bytes");
            }
            Self::ReadOnly => "the data was read-only",
            Self::Shared => "the data was shared with its producer",
            Self::Overlapping => "elements may overlap with the strides it had",
            Self::Requested => "a copy was requested",
            Self::Producer => "the producer made a copy",
            Self::Device => "the data was in memory of another device",
            Self::ByteOrder => "the elements were not in this machine's byte order",
            Self::ByteStrides => "the strides were not multiples of the element size",
            Self::BitPacked => "the elements were packed, eight to a byte",
            Self::InvalidBooleans => "some booleans were neither 0 nor 1",
            Self::Nulls => "some elements were null",
            Self::SeveralChunks => "the elements were in several chunks of memory",
            Self::Converted => "the elements had another dtype",
        })
    }
}
