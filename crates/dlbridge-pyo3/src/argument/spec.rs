//! The demands of an argument, constant at compile time.

use dlbridge::{DataType, Device, DeviceType, Error, TensorRef};
use dlbridge_borrow::Mode;

use super::cast::Cast;
use super::checked::Rescale;
use super::constraint::Requirement;
use crate::import_options::ImportOptions;

/// The demands of an argument.
pub(super) struct ArgumentSpec {
    /// The accepted dtypes; empty if any dtype is accepted.
    pub(super) dtypes: &'static [DataType],
    /// Alignment of an element of a dtype, in bytes.
    pub(super) alignment: fn(DataType) -> usize,
    pub(super) ndim: Option<usize>,
    pub(super) place: Place,
    pub(super) requirement: Requirement,
    pub(super) mode: Mode,
    /// Refuses a tensor that fits otherwise if its elements are not values of the dtype.
    pub(super) check: fn(&TensorRef<'_>) -> Result<(), Error>,
    /// Returns true if `check` reads the elements of this dtype.
    pub(super) checks: fn(DataType) -> bool,
    /// Converts elements of another dtype, if that is allowed. An extension links such a function only if one of its
    /// arguments uses it.
    pub(super) cast: Cast,
    /// NumPy's names for elements that are counts of a unit of time; empty for other elements.
    pub(super) times: &'static [&'static str],
    /// Converts times of another unit, if that is allowed.
    pub(super) rescale: Rescale,
}

/// The memory that the data of an argument may be in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Memory that the CPU reads.
    Host,
    /// Memory of any device.
    Anywhere,
}

impl Place {
    pub(super) fn has(self, device_type: DeviceType) -> bool {
        self == Self::Anywhere || device_type.is_host_accessible()
    }
}

impl ArgumentSpec {
    pub(super) fn import_options(&self) -> ImportOptions {
        let device = self.requirement.allow_copy.then_some(Device::CPU);
        ImportOptions { device, ..ImportOptions::default() }
    }
}
