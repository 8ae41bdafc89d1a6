//! The permitted users and uses of a tensor's data.

use dlbridge_sys::{
    DLPACK_FLAG_BITMASK_IS_COPIED, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
    DLPACK_FLAG_BITMASK_READ_ONLY,
};

/// The permitted users and uses of a tensor's data.
///
/// | | the holder | others | code that keeps slices of the data |
/// | --- | --- | --- | --- |
/// | `Exclusive` | reads and writes | do neither | accepts it |
/// | `Shared` | reads | may read and write | refuses it |
/// | `ReadOnly` | reads | may read and write | refuses it |
/// | `Immutable` | reads | may read | accepts it |
///
/// `ReadOnly` restricts the consumers of a tensor, not its producer: a read-only array of NumPy may be a view of a
/// writable one. `Immutable` restricts all code. Code that keeps slices calls
/// [`Tensor::check_stable`](crate::Tensor::check_stable) first.
///
/// ```
/// use dlbridge::{Access, Tensor};
///
/// assert_eq!(Tensor::from(vec![1.0_f32]).access(), Access::Exclusive);
/// assert_eq!(Tensor::from(&[1.0_f32][..]).access(), Access::Immutable);
/// assert_eq!(Tensor::from(vec![1.0_f32]).into_read_only().access(), Access::ReadOnly);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Only the holder of the tensor reads and writes the data. DLPack: `IS_COPIED`.
    Exclusive,
    /// The producer and other consumers may read and write the data too. DLPack: no flag.
    Shared,
    /// Consumers must not write the data; its producer may. DLPack: `READ_ONLY`.
    ReadOnly,
    /// Nothing writes the data until the tensor's owner is dropped. DLPack lacks a flag for this: consumers see
    /// `READ_ONLY`, and a tensor that they return to this crate is immutable again.
    Immutable,
}

impl Access {
    pub(crate) const fn flags(self) -> u64 {
        match self {
            Self::Exclusive => DLPACK_FLAG_BITMASK_IS_COPIED,
            Self::Shared => 0,
            Self::ReadOnly | Self::Immutable => DLPACK_FLAG_BITMASK_READ_ONLY,
        }
    }

    /// True if the flags declare padded sub-byte elements.
    pub(crate) const fn subbyte_padded(flags: u64) -> bool {
        flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0
    }

    /// The access that a managed tensor's flags state; never `Immutable`.
    pub(crate) const fn of(flags: u64) -> Self {
        if flags & DLPACK_FLAG_BITMASK_READ_ONLY != 0 {
            Self::ReadOnly
        } else if flags & DLPACK_FLAG_BITMASK_IS_COPIED != 0 {
            Self::Exclusive
        } else {
            Self::Shared
        }
    }
}
