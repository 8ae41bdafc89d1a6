//! The differences between a tensor and the demands.

use dlbridge::{CopyReason, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::spec::ArgumentSpec;
use crate::imported::Imported;
use crate::mismatch::Mismatch;
use crate::numpy::array::{Described, NumpyArray};

/// The differences between a tensor and the demands: at most one of each kind.
#[derive(Clone, Copy, Default)]
pub(super) struct Unmet {
    /// True if the dtype, the extents or the device differ; every message shows these.
    pub(super) plain: bool,
    pub(super) order: Option<Mismatch>,
    pub(super) alignment: Option<Mismatch>,
    pub(super) access: Option<Mismatch>,
    pub(super) copied: Option<Mismatch>,
}

impl Unmet {
    pub(super) fn is_empty(&self) -> bool {
        let Self { plain, order, alignment, access, copied } = self;
        !plain && order.is_none() && alignment.is_none() && access.is_none() && copied.is_none()
    }

    /// The differences that the message adds, in its order.
    pub(super) fn mismatches(&self) -> impl Iterator<Item = Mismatch> {
        [self.order, self.alignment, self.access, self.copied].into_iter().flatten()
    }
}

impl ArgumentSpec {
    /// Returns true if a tensor that is not a copy meets all demands.
    #[inline]
    pub(super) fn fits(&self, tensor: &TensorRef<'_>, read_only: bool) -> bool {
        let (dtype, device_type) = (tensor.dtype(), tensor.device().device_type());
        self.fits_dtype(dtype)
            && self.fits_extents(tensor.shape())
            && self.fits_device(device_type)
            && self.fits_order(tensor)
            && (tensor.is_empty() || self.misaligned(tensor.data().addr(), dtype).is_none())
            && !(self.mode == Mode::Write && read_only)
    }

    /// Compares an imported tensor with the demands.
    pub(super) fn compare(&self, imported: &Imported) -> Unmet {
        let access = match imported.is_read_only() {
            true if imported.tensor.is_read_only() => Some(Mismatch::ReadOnly),
            true => Some(Mismatch::UnknownAccess),
            false => None,
        };
        self.unmet(&TensorRef::from(&imported.tensor), access, imported.reason)
    }

    /// Compares a tensor with the demands.
    pub(super) fn unmet(
        &self,
        tensor: &TensorRef<'_>,
        access: Option<Mismatch>,
        reason: Option<CopyReason>,
    ) -> Unmet {
        let (dtype, device_type) = (tensor.dtype(), tensor.device().device_type());
        let plain = self.fits_dtype(dtype)
            && self.fits_extents(tensor.shape())
            && self.fits_device(device_type);
        let order = (!self.fits_order(tensor)).then_some(Mismatch::Order(self.order));
        let address = tensor.data().addr();
        let is_checked = !tensor.is_empty() && device_type.is_addressable();
        let alignment = (is_checked && self.misaligned(address, dtype).is_some())
            .then(|| Mismatch::Alignment { address, required: self.align(dtype) });
        let access = access.filter(|_| self.mode == Mode::Write);
        let copied = match self.mode {
            // Writes to a copy would be lost.
            Mode::Write => reason.filter(|_| access.is_none()),
            // A producer may compute its data on export; that is not a copy of its memory.
            Mode::Read => {
                reason.filter(|&reason| !self.allow_copy && reason != CopyReason::Producer)
            }
        };
        Unmet { plain: !plain, order, alignment, access, copied: copied.map(Mismatch::Copied) }
    }

    /// A NumPy array that does not fit, and its differences; `None` if it fits, or if only an import can decide.
    pub(super) fn unfit<'a>(
        &self,
        head: NumpyArray,
        object: &'a Bound<'_, PyAny>,
    ) -> Option<(Described<'a>, Unmet)> {
        let array = head.describe(object)?;
        let unmet = self.unmet(&array.tensor, array.read_only.then_some(Mismatch::ReadOnly), None);
        (!unmet.is_empty()).then_some((array, unmet))
    }
}
