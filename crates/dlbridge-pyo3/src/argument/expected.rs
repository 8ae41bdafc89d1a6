//! The demands of an argument, known when its function is compiled.

use dlbridge::{DataType, Device, DeviceType, Error, TensorRef};
use dlbridge_borrow::Mode;

use super::cast::Cast;
use super::checked::Rescale;
use super::constraint::Requirement;
use crate::import_options::ImportOptions;

/// The demands of an argument.
pub(super) struct Expected {
    /// Any of these; any at all if there are none.
    pub(super) dtypes: &'static [DataType],
    /// The address of an element of a dtype must be a multiple of this, in bytes.
    pub(super) alignment: fn(DataType) -> usize,
    pub(super) ndim: Option<usize>,
    pub(super) place: Place,
    pub(super) requirement: Requirement,
    pub(super) mode: Mode,
    /// Refuses a tensor that fits otherwise if its elements are not values of the dtype.
    pub(super) check: fn(&TensorRef<'_>) -> Result<(), Error>,
    /// Returns true if `check` must look at the elements of this dtype.
    pub(super) checks: fn(DataType) -> bool,
    /// How elements of another dtype are converted, if they may be. A function here is linked only into extensions whose
    /// arguments ask for it.
    pub(super) cast: Cast,
    /// NumPy's names for elements that are counts of a unit of time; none for other elements.
    pub(super) times: &'static [&'static str],
    /// How times of another unit are converted, if they may be.
    pub(super) rescale: Rescale,
}

/// Where the data of an argument may be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Where the CPU reads it.
    Host,
    /// On any device.
    Anywhere,
}

impl Place {
    pub(super) fn has(self, device_type: DeviceType) -> bool {
        self == Self::Anywhere || device_type.is_host_accessible()
    }
}

impl Expected {
    pub(super) fn import_options(&self) -> ImportOptions {
        let device = self.requirement.allow_copy.then_some(Device::CPU);
        ImportOptions { device, ..ImportOptions::default() }
    }
}
