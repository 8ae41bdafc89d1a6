//! The reason for a copy.

use core::fmt;

/// Why elements were copied.
///
/// One type has the reasons of this crate's conversions, and those of imports from Python by `dlbridge-pyo3`.
///
/// ```
/// use dlbridge::{CopyReason, Tensor};
///
/// let columns = Tensor::from_parts_strided(vec![1, 2, 3, 4], [2, 2], [1, 2], 0)?;
/// let (rows, copied) = columns.into_contiguous()?;
/// assert_eq!(copied, Some(CopyReason::NotContiguous));
/// assert_eq!(rows.view::<i32>()?.as_slice(), Some(&[1, 3, 2, 4][..]));
/// assert_eq!(CopyReason::Requested.to_string(), "a copy was asked for");
/// # Ok::<(), dlbridge::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyReason {
    /// The elements were not adjacent in C order.
    NotContiguous,
    /// The elements were not adjacent in Fortran order.
    NotFortranContiguous,
    /// The data was not aligned as asked.
    Misaligned {
        /// The address of the first element.
        address: usize,
        /// The alignment asked for, in bytes.
        required: usize,
    },
    /// The data must not be written.
    ReadOnly,
    /// Another user may read or write the data too.
    Shared,
    /// Two indices lead to the same element.
    Overlapping,
    /// The caller asked for a copy, as by `copy=True`.
    Requested,
    /// The producer copied, or moved the data to another device, and said so.
    Producer,
    /// The data was asked for on the CPU, and was in memory of another device.
    Device,
    /// The bytes of each number were in the other order than this machine's.
    ByteOrder,
    /// The strides were no multiples of the size of an element.
    ByteStrides,
    /// The elements were packed, eight to a byte, and are whole bytes now.
    BitPacked,
    /// Some booleans were neither 0 nor 1, and are 1 now.
    TruthValues,
    /// Some times were null, and are `NaT` now.
    Nulls,
}

impl fmt::Display for CopyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::NotContiguous => "the elements were not adjacent in C order",
            Self::NotFortranContiguous => "the elements were not adjacent in Fortran order",
            Self::Misaligned { address, required } => {
                return write!(f, "the data at {address:#x} was not aligned to {required} bytes");
            }
            Self::ReadOnly => "the data was read-only",
            Self::Shared => "the data was shared with its producer",
            Self::Overlapping => "elements may overlap with the strides it had",
            Self::Requested => "a copy was asked for",
            Self::Producer => "the producer made a copy",
            Self::Device => "the data was in memory of another device",
            Self::ByteOrder => "the elements were not in this machine's byte order",
            Self::ByteStrides => "the strides were no multiples of the size of an element",
            Self::BitPacked => "the elements were packed, eight to a byte",
            Self::TruthValues => "some truth values were neither 0 nor 1",
            Self::Nulls => "some times were null",
        })
    }
}
