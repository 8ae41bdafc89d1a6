//! How a tensor differs from what was expected.

use dlbridge::TensorRef;
use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::expected::Expected;
use crate::protocol::Imported;
use crate::protocol::numpy_array::{Described, NumpyArray};
use crate::receipt::CopyReason;

/// How a tensor differs from what was expected.
#[derive(Clone, Copy, Default)]
pub(super) struct Unmet {
    /// The dtype, the extents or the device.
    pub(super) plain: bool,
    pub(super) order: bool,
    /// The number of bytes that the address is a multiple of.
    pub(super) aligned: Option<usize>,
    pub(super) unwritable: Option<Unwritable>,
    pub(super) copied: Option<CopyReason>,
}

/// Why a tensor must not be written.
#[derive(Clone, Copy)]
pub(super) enum Unwritable {
    ReadOnly,
    /// Its producer cannot say.
    Unknown,
}

impl Unmet {
    pub(super) fn is_empty(&self) -> bool {
        let Self { plain, order, aligned, unwritable, copied } = self;
        !plain && !order && aligned.is_none() && unwritable.is_none() && copied.is_none()
    }
}

impl Expected {
    /// Returns true if a tensor that is not a copy fits.
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

    /// How an imported tensor differs from what was expected.
    pub(super) fn compare(&self, imported: &Imported) -> Unmet {
        let unwritable = match imported.is_read_only() {
            true if imported.tensor.is_read_only() => Some(Unwritable::ReadOnly),
            true => Some(Unwritable::Unknown),
            false => None,
        };
        self.unmet(&TensorRef::from(&imported.tensor), unwritable, imported.reason)
    }

    /// How a tensor differs from what was expected.
    pub(super) fn unmet(
        &self,
        tensor: &TensorRef<'_>,
        unwritable: Option<Unwritable>,
        reason: Option<CopyReason>,
    ) -> Unmet {
        let (dtype, device_type) = (tensor.dtype(), tensor.device().device_type());
        let plain = self.fits_dtype(dtype)
            && self.fits_extents(tensor.shape())
            && self.fits_device(device_type);
        let aligned = match tensor.is_empty() || !device_type.is_addressable() {
            true => None,
            false => self.misaligned(tensor.data().addr(), dtype),
        };
        let unwritable = unwritable.filter(|_| self.mode == Mode::Write);
        let copied = match self.mode {
            // Writes would be lost.
            Mode::Write => reason.filter(|_| unwritable.is_none()),
            // That a producer makes its data only when asked is its own affair.
            Mode::Read => reason
                .filter(|&reason| !self.requirement.allow_copy && reason != CopyReason::Producer),
        };
        Unmet { plain: !plain, order: !self.fits_order(tensor), aligned, unwritable, copied }
    }

    /// An array of NumPy that does not fit, and how it differs; `None` if it fits, or if only an import tells.
    pub(super) fn unfit<'a>(
        &self,
        head: NumpyArray,
        object: &'a Bound<'_, PyAny>,
    ) -> Option<(Described<'a>, Unmet)> {
        let array = head.describe(object)?;
        let unmet =
            self.unmet(&array.tensor, array.read_only.then_some(Unwritable::ReadOnly), None);
        (!unmet.is_empty()).then_some((array, unmet))
    }
}
