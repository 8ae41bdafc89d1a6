//! The parts of a tensor's description: the place of its data, the dtype and the permitted use.

use core::ffi::c_void;

use dlbridge_sys::{DLPACK_FLAG_BITMASK_IS_COPIED, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED};

use crate::element::Element;
use crate::layout::{self, ElementExtent};
use crate::{Access, DataType, Device, Error, Result};

/// The permitted use of a block's data: DLPack's flags, and a bit that DLPack lacks.
#[derive(Clone, Copy)]
pub(crate) struct Marks {
    pub(crate) flags: u64,
    /// Invariant Immutable of `block/mod.rs`; `READ_ONLY` is then among the flags.
    pub(crate) immutable: bool,
}

impl Marks {
    pub(crate) const NONE: Self = Self { flags: 0, immutable: false };

    pub(crate) const fn access(self) -> Access {
        if self.immutable { Access::Immutable } else { Access::of(self.flags) }
    }

    /// The marks once the data has a second user: neither user is exclusive.
    pub(crate) const fn without_exclusive(self) -> Self {
        Self { flags: self.flags & !DLPACK_FLAG_BITMASK_IS_COPIED, ..self }
    }
}

/// The place, type and permitted use of a tensor's elements, for
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
    /// The permitted use of the data.
    pub access: Access,
    /// True if elements narrower than a byte take a whole byte each.
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
        let subbyte_padded = T::DATA_TYPE.is_subbyte();
        Self { access, subbyte_padded, ..Self::new(first.cast(), T::DATA_TYPE) }
    }

    pub(crate) fn marks(&self) -> Marks {
        let padded = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED * u64::from(self.subbyte_padded);
        let immutable = matches!(self.access, Access::Immutable);
        Marks { flags: self.access.flags() | padded, immutable }
    }

    /// The address and byte offset of nonempty data, whose elements all lie in the address space (Layout). On
    /// addressable devices the byte offset is folded into the address.
    #[inline(always)]
    pub(crate) fn locate(&self, elements: ElementExtent) -> Result<(*mut c_void, u64)> {
        if self.data.is_null() {
            return Err(Error::NullPointer { field: "the data of a tensor with elements" });
        }
        let extent = layout::byte_extent(elements, self.dtype, self.subbyte_padded)?;
        let addressable = self.device.device_type().is_addressable();
        let base = if addressable { self.data.addr() as u64 } else { 0 };
        // The memory of every device fits an i64.
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
