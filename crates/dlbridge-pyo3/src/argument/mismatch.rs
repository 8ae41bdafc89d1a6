//! The comparison of a tensor with the demands of an argument.
//!
//! Its result decides everything: whether the tensor is borrowed, copied or refused, and the words of the refusal.

use dlbridge::{CopyReason, DataType, DeviceType, TensorRef};
use dlbridge_borrow::Mode;

use super::spec::ArgumentSpec;
use crate::imported::Imported;

/// The differences between a tensor and the demands; empty if the tensor fits.
#[derive(Clone, Copy, Default)]
pub(super) struct Mismatch {
    differences: u8,
    /// The alignment of the address, as a power of two, if it is too small.
    alignment: u8,
}

/// One kind of difference.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Difference {
    Dtype = 1,
    Extents = 2,
    Device = 4,
    Order = 8,
    Alignment = 16,
    ReadOnly = 32,
    /// The producer cannot say whether its data may be written.
    UnknownAccess = 64,
    /// The data was copied, and may not be.
    Copied = 128,
}

/// What is known about writes to the data of a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Writable,
    ReadOnly,
    Unknown,
}

impl Access {
    #[inline(always)]
    pub(super) fn new(read_only: bool) -> Self {
        if read_only { Self::ReadOnly } else { Self::Writable }
    }

    pub(super) fn of(imported: &Imported) -> Self {
        match (imported.is_read_only(), imported.tensor.is_read_only()) {
            (false, _) => Self::Writable,
            (true, true) => Self::ReadOnly,
            (true, false) => Self::Unknown,
        }
    }
}

impl Mismatch {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.differences == 0
    }

    #[inline(always)]
    pub(super) fn has(&self, difference: Difference) -> bool {
        self.differences & difference as u8 != 0
    }

    /// Returns true if there is one difference, of this kind.
    pub(super) fn is_only(&self, difference: Difference) -> bool {
        self.differences == difference as u8
    }

    /// The alignment of the first element in bytes, if it is too small.
    pub(super) fn alignment(&self) -> Option<u64> {
        self.has(Difference::Alignment).then(|| 1 << self.alignment)
    }

    #[inline(always)]
    pub(super) fn add(&mut self, difference: Difference, differs: bool) {
        self.differences |= if differs { difference as u8 } else { 0 };
    }
}

impl ArgumentSpec {
    /// Compares a tensor with the demands. `reason` says why it was copied, if it was.
    #[inline]
    pub(super) fn compare(
        &self,
        tensor: &TensorRef<'_>,
        access: Access,
        reason: Option<CopyReason>,
    ) -> Mismatch {
        let (dtype, device_type) = (tensor.dtype(), tensor.device().device_type());
        let mut found = self.compare_facts(dtype, tensor.shape(), device_type, access, reason);
        found.add(Difference::Order, !self.order.fits(tensor));
        let address = tensor.data().addr();
        let has_address = !tensor.is_empty() && device_type.is_addressable();
        if has_address && !self.fits_address(address, dtype) {
            found.add(Difference::Alignment, true);
            found.alignment = address.trailing_zeros() as u8;
        }
        found
    }

    /// Compares everything that does not need the elements' addresses.
    #[inline(always)]
    pub(super) fn compare_facts(
        &self,
        dtype: DataType,
        shape: &[i64],
        device_type: DeviceType,
        access: Access,
        reason: Option<CopyReason>,
    ) -> Mismatch {
        let mut found = Mismatch::default();
        found.add(Difference::Dtype, !self.fits_dtype(dtype));
        found.add(Difference::Extents, !self.fits_extents(shape));
        found.add(Difference::Device, !self.fits_device(device_type));
        match self.mode {
            Mode::Write => {
                found.add(Difference::ReadOnly, access == Access::ReadOnly);
                found.add(Difference::UnknownAccess, access == Access::Unknown);
                // Writes to a copy would be lost.
                found.add(Difference::Copied, access == Access::Writable && reason.is_some());
            }
            // A producer may compute its data on export; that is not a copy of its memory.
            Mode::Read => {
                let is_copied = reason.is_some_and(|reason| reason != CopyReason::Producer);
                found.add(Difference::Copied, self.copies.is_none() && is_copied);
            }
        }
        found
    }

    #[inline(always)]
    pub(super) fn fits_dtype(&self, dtype: DataType) -> bool {
        self.dtypes.is_empty() || self.dtypes.contains(&dtype)
    }

    #[inline(always)]
    pub(super) fn fits_device(&self, device_type: DeviceType) -> bool {
        (!self.on_host || device_type.is_host_accessible())
            && (self.devices.is_empty() || self.devices.contains(&device_type))
    }

    /// The alignment of an element in bytes, a power of two.
    #[inline(always)]
    pub(super) fn align(&self, dtype: DataType) -> usize {
        self.align.max((self.alignment)(dtype))
    }

    #[inline(always)]
    pub(super) fn fits_address(&self, address: usize, dtype: DataType) -> bool {
        address & (self.align(dtype) - 1) == 0
    }

    /// Returns true if the number of dimensions and the extents fit.
    #[inline(always)]
    pub(super) fn fits_extents(&self, shape: &[i64]) -> bool {
        let fits = |(&extent, dim): (&i64, &Option<usize>)| {
            dim.is_none_or(|dim| usize::try_from(extent) == Ok(dim))
        };
        self.ndim.is_none_or(|ndim| ndim == shape.len())
            && (self.dims.is_empty() || self.dims.len() == shape.len())
            && shape.iter().zip(self.dims).all(fits)
    }
}
