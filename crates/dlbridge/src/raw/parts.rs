//! What a tensor is made of: where its data is, what it is, and who may use it.

use core::ffi::c_void;

use dlbridge_sys::{
    DLPACK_FLAG_BITMASK_IS_COPIED, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
    DLPACK_FLAG_BITMASK_READ_ONLY,
};

use super::element::Element;
use crate::layout::{self, ElementExtent};
use crate::{DataType, Device, Error, Result};

/// Which uses of a tensor's data are allowed, and to whom.
///
/// | | the holder | others | code that keeps slices of the data |
/// | --- | --- | --- | --- |
/// | `Exclusive` | reads and writes | do neither | accepts it |
/// | `Shared` | reads | may read and write | refuses it |
/// | `ReadOnly` | reads | may read and write | refuses it |
/// | `Immutable` | reads | may read | accepts it |
///
/// `ReadOnly` restricts the consumers of a tensor, not its producer: a read-only array of NumPy may be a view of a
/// writable one. `Immutable` is a promise about everybody. [`Tensor::check_stable`](crate::Tensor::check_stable) is
/// the check for code that keeps slices.
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
    /// `READ_ONLY`, and a tensor that comes back from them is immutable again.
    Immutable,
}

/// The marks of a block about the use of its data: DLPack's flags, and a bit that DLPack lacks.
#[derive(Clone, Copy)]
pub(super) struct Marks {
    pub(super) flags: u64,
    /// Invariant Immutable of `mod.rs`; `READ_ONLY` is then among the flags.
    pub(super) immutable: bool,
}

impl Marks {
    pub(super) const NONE: Self = Self { flags: 0, immutable: false };

    pub(super) const fn access(self) -> Access {
        if self.immutable { Access::Immutable } else { Access::of(self.flags) }
    }

    /// The marks for a second user of the data: neither has it exclusively then.
    pub(super) const fn lent(self) -> Self {
        Self { flags: self.flags & !DLPACK_FLAG_BITMASK_IS_COPIED, ..self }
    }
}

impl Access {
    pub(crate) const fn flags(self) -> u64 {
        match self {
            Self::Exclusive => DLPACK_FLAG_BITMASK_IS_COPIED,
            Self::Shared => 0,
            Self::ReadOnly | Self::Immutable => DLPACK_FLAG_BITMASK_READ_ONLY,
        }
    }

    /// Whether the flags say that sub-byte elements are padded.
    pub(crate) const fn subbyte_padded(flags: u64) -> bool {
        flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0
    }

    /// The access that the flags of a managed tensor state, which is never `Immutable`.
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

/// Where the elements of a tensor are and what they are, for
/// [`Tensor::from_raw_parts`](crate::Tensor::from_raw_parts).
///
/// ```
/// use dlbridge::{Access, DataType, Device, RawParts};
///
/// let parts = RawParts::new(std::ptr::null_mut(), DataType::FLOAT32);
/// assert_eq!((parts.device, parts.byte_offset), (Device::CPU, 0));
/// assert_eq!(parts.access, Access::Shared);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RawParts {
    /// The address of the first element, or a handle on devices that have handles.
    pub data: *mut c_void,
    /// The type of the elements.
    pub dtype: DataType,
    /// The device that holds the data.
    pub device: Device,
    /// The distance from `data` to the first element in bytes, below 2⁶³.
    pub byte_offset: u64,
    /// Who may use the data.
    pub access: Access,
    /// Whether elements narrower than a byte take a whole byte each.
    pub subbyte_padded: bool,
}

impl RawParts {
    /// Data in main memory, shared, without an offset.
    ///
    /// ```
    /// use dlbridge::{DataType, RawParts};
    ///
    /// let mut values = [1_i32, 2, 3];
    /// let parts = RawParts::new(values.as_mut_ptr().cast(), DataType::INT32);
    /// assert!(!parts.subbyte_padded);
    /// ```
    pub const fn new(data: *mut c_void, dtype: DataType) -> Self {
        Self {
            data,
            dtype,
            device: Device::CPU,
            byte_offset: 0,
            access: Access::Shared,
            subbyte_padded: false,
        }
    }

    /// Elements of a Rust type in main memory. Those narrower than a byte are padded, since a Rust
    /// value takes whole bytes.
    ///
    /// ```
    /// use dlbridge::{Access, DataType, RawParts};
    ///
    /// let mut values = [1_i32, 2, 3];
    /// let parts = RawParts::of_elements(values.as_mut_ptr(), Access::Shared);
    /// assert_eq!(parts.dtype, DataType::INT32);
    /// ```
    pub const fn of_elements<T: Element>(first: *mut T, access: Access) -> Self {
        let subbyte_padded = T::DTYPE.is_subbyte();
        Self { access, subbyte_padded, ..Self::new(first.cast(), T::DTYPE) }
    }

    pub(super) fn marks(&self) -> Marks {
        let padded = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED * u64::from(self.subbyte_padded);
        let immutable = matches!(self.access, Access::Immutable);
        Marks { flags: self.access.flags() | padded, immutable }
    }

    /// The address and byte offset of data with elements, all of which lie in the address space
    /// (Layout). On addressable devices the byte offset is folded into the address.
    #[inline(always)]
    pub(super) fn locate(&self, elements: ElementExtent) -> Result<(*mut c_void, u64)> {
        if self.data.is_null() {
            return Err(Error::NullPointer { field: "the data of a tensor with elements" });
        }
        let extent = layout::byte_extent(elements, self.dtype, self.subbyte_padded)?;
        let addressable = self.device.device_type().is_addressable();
        let base = if addressable { self.data.addr() as u64 } else { 0 };
        // No memory is larger than i64 can tell, on any device.
        let offset = i64::try_from(self.byte_offset).map_err(|_| Error::TooLarge)?;
        let first = base.checked_add_signed(offset).ok_or(Error::TooLarge)?;
        let lowest = first.checked_add_signed(extent.start as i64);
        let end = first.checked_add(extent.end as u64);
        match (lowest, end) {
            (Some(_), Some(end)) if !addressable && i64::try_from(end).is_ok() => {
                Ok((self.data, self.byte_offset))
            }
            (Some(_), Some(end)) if addressable && usize::try_from(end).is_ok() => {
                Ok((self.data.wrapping_byte_add(self.byte_offset as usize), 0))
            }
            _ => Err(Error::TooLarge),
        }
    }
}
