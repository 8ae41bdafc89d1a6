//! The receipt of an import: whether elements were copied, and why.

use std::fmt;

/// Why the elements of a tensor were copied on its way in.
///
/// ```
/// use dlbridge_pyo3::CopyReason;
///
/// assert_eq!(CopyReason::Requested.to_string(), "a copy was asked for");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyReason {
    /// `copy=True`.
    Requested,
    /// The producer copied, or moved the data to another device, and said so.
    Producer,
    /// The bytes of each number were in the other order than this machine's.
    ByteOrder,
    /// The strides were no multiples of the size of an element.
    ByteStrides,
    /// The elements were packed, eight to a byte, and are whole bytes now.
    BitPacked,
    /// Some truth values were neither 0 nor 1, and are 1 now.
    TruthValues,
    /// Some times were null, and are `NaT` now.
    Nulls,
    /// The data was asked for on the CPU, and was in memory of another device.
    Device,
    /// The elements were not adjacent in Fortran order.
    NotFortranContiguous,
    /// The core copied: order, alignment, access.
    Core(dlbridge::CopyReason),
}

impl fmt::Display for CopyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requested => "a copy was asked for",
            Self::Producer => "the producer made a copy",
            Self::ByteOrder => "the elements were not in this machine's byte order",
            Self::ByteStrides => "the strides were no multiples of the size of an element",
            Self::BitPacked => "the elements were packed, eight to a byte",
            Self::TruthValues => "some truth values were neither 0 nor 1",
            Self::Nulls => "some times were null",
            Self::Device => "the data was in memory of another device",
            Self::NotFortranContiguous => "the elements were not adjacent in Fortran order",
            Self::Core(reason) => return reason.fmt(f),
        })
    }
}
