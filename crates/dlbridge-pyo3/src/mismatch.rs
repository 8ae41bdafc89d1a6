//! The difference between a tensor and the options of an import, or the type of an argument.
//!
//! Refusals, reasons of copies and messages are made from a [`Mismatch`].

use std::fmt;

use dlbridge::{CopyReason, Device};

use crate::order::Order;

/// A difference between a tensor and the demands.
#[derive(Clone, Copy)]
pub(crate) enum Mismatch {
    /// The tensor is on another device than `wanted`.
    Device { found: Device, wanted: Device },
    /// The elements are not in this order.
    Order(Order),
    /// The address of the first element is not a multiple of `required` bytes.
    Alignment { address: usize, required: usize },
    /// The data is read-only.
    ReadOnly,
    /// The producer cannot say whether the data may be written.
    UnknownAccess,
    /// The data was copied, and a copy is not allowed.
    Copied(CopyReason),
}

impl Mismatch {
    /// The reason of the copy that meets the demand; `None` if a copy on the CPU cannot meet it.
    pub(crate) fn copy_reason(self) -> Option<CopyReason> {
        match self {
            Self::Device { found, wanted } => {
                let is_within_reach =
                    wanted == Device::CPU && found.device_type().is_host_accessible();
                is_within_reach.then_some(CopyReason::Device)
            }
            Self::Order(Order::Fortran) => Some(CopyReason::NotFortranContiguous),
            Self::Order(_) => Some(CopyReason::NotContiguous),
            Self::Alignment { address, required } => {
                Some(CopyReason::Misaligned { address, required })
            }
            Self::ReadOnly | Self::UnknownAccess => Some(CopyReason::ReadOnly),
            Self::Copied(_) => None,
        }
    }
}

/// Describes the tensor that was found.
impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Device { found, wanted } => {
                write!(
                    f,
                    "the data is on {found} and cannot be imported on {wanted}; move it first"
                )
            }
            Self::Order(_) => f.write_str("not contiguous in that order"),
            Self::Alignment { address, .. } => match address & address.wrapping_neg() {
                1 => f.write_str("aligned to 1 byte"),
                bytes => write!(f, "aligned to {bytes} bytes"),
            },
            Self::ReadOnly => f.write_str("read-only"),
            Self::UnknownAccess => {
                f.write_str("from a producer that cannot say whether it may be written")
            }
            Self::Copied(reason) => write!(f, "which needs a copy, since {reason}"),
        }
    }
}
