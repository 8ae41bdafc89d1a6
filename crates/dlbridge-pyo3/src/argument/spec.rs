//! The demands of an argument, constant at compile time.

use dlbridge::{DataType, Device, DeviceType, Error, Tensor, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::accepts::{Accepts, AnyDataType, Checked};
use super::borrowed::assert_exclusive;
use crate::import_options::{ImportOptions, Order};
use crate::imported::Imported;
use crate::numpy::array::NumpyArray;
use crate::protocol::TypeInfo;

/// The number of dimensions of an argument that accepts any.
///
/// ```no_run
/// use dlbridge_pyo3::{DYNAMIC, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn total(x: PyReadonlyTensor<'_, f64, DYNAMIC>) -> f64 {
///     x.iter().sum()
/// }
/// ```
pub const DYNAMIC: usize = usize::MAX;

/// Checks that no two indices lead to one element.
type Exclusive = fn(&TensorRef<'_>) -> Result<(), Error>;

/// The copies of objects that do not fit.
pub(super) struct Copies {
    pub(super) of_array: OfArray,
    pub(super) of_tensor: OfTensor,
    /// Imports a table as a matrix, whose copy has an order; `None` for other objects.
    pub(super) of_table: fn(&Bound<'_, PyAny>, Order) -> PyResult<Option<Imported>>,
}

/// Copies a NumPy array; true for numbers in the byte order that this machine does not use.
type OfArray = fn(
    &'static ArgumentSpec,
    NumpyArray,
    &TypeInfo,
    &Bound<'_, PyAny>,
    bool,
) -> Result<Tensor, Unfit>;

/// Copies an imported tensor.
type OfTensor =
    fn(&'static ArgumentSpec, &Tensor, &TypeInfo, &Bound<'_, PyAny>) -> Result<Tensor, Unfit>;

/// Why a tensor is not converted.
pub(super) enum Unfit {
    /// No copy can fit.
    Always,
    /// An element that the dtype cannot hold, in words.
    Element(String),
    Raised(PyErr),
}

impl From<PyErr> for Unfit {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

/// The demands of an argument; those of a [`Constraint`] alone leave everything else open.
#[derive(Clone, Copy)]
pub struct ArgumentSpec {
    /// The accepted dtypes; empty if any dtype is accepted.
    pub(super) dtypes: &'static [DataType],
    /// NumPy's names for elements that are counts of a unit of time; empty for other elements.
    pub(super) times: &'static [&'static str],
    /// Alignment of an element of a dtype, in bytes.
    pub(super) alignment: fn(DataType) -> usize,
    /// Refuses a tensor that fits otherwise if its elements are not values of the dtype.
    pub(super) check: fn(&TensorRef<'_>) -> Result<(), Error>,
    /// Returns true if `check` reads the elements of this dtype.
    pub(super) checks: fn(DataType) -> bool,
    pub(super) ndim: Option<usize>,
    /// The fixed extents, one for each dimension; empty if all are free.
    pub(super) dims: &'static [Option<usize>],
    /// The order of the elements.
    pub(super) order: Order,
    /// Required alignment of the first element, in bytes.
    pub(super) align: usize,
    /// True if the CPU reads the data.
    pub(super) on_host: bool,
    /// The device types that the data may be on; empty for all.
    pub(super) devices: &'static [DeviceType],
    pub(super) mode: Mode,
    /// The check of an argument that is written. An extension links its code only if it has such an argument.
    pub(super) exclusive: Option<Exclusive>,
    /// The copies of objects that do not fit, if they are allowed. An extension links their code only if one of its
    /// arguments allows them.
    pub(super) copies: Option<&'static Copies>,
    /// True if lists and tuples of numbers are converted to tensors.
    pub(super) allow_sequence: bool,
    /// True if elements of another dtype are converted by the rule of [`AllowCast`](super::AllowCast).
    pub(super) allow_cast: bool,
}

impl ArgumentSpec {
    /// Accepts every tensor.
    pub(super) const ANY: Self = Self {
        dtypes: &[],
        times: &[],
        alignment: AnyDataType::alignment,
        check: AnyDataType::check,
        checks: AnyDataType::checks,
        ndim: None,
        dims: &[],
        order: Order::Strided,
        align: 1,
        on_host: false,
        devices: &[],
        mode: Mode::Read,
        exclusive: None,
        copies: None,
        allow_sequence: false,
        allow_cast: false,
    };

    /// Combines the demands of two constraints.
    pub(super) const fn and(self, other: Self) -> Self {
        let dims = match (self.dims, other.dims) {
            ([], dims) | (dims, []) => dims,
            _ => panic!("the constraints give the extents twice"),
        };
        let order = match (self.order, other.order) {
            (Order::Strided, order) | (order, Order::Strided) => order,
            _ => panic!("the constraints give two orders"),
        };
        let devices = match (self.devices, other.devices) {
            ([], devices) | (devices, []) => devices,
            _ => panic!("the constraints give the device twice"),
        };
        Self {
            dims,
            order,
            align: if self.align > other.align { self.align } else { other.align },
            devices,
            mode: if let Mode::Write = self.mode { self.mode } else { other.mode },
            copies: match self.copies {
                None => other.copies,
                copies => copies,
            },
            allow_sequence: self.allow_sequence || other.allow_sequence,
            allow_cast: self.allow_cast || other.allow_cast,
            ..self
        }
    }

    /// The demands of an argument that the CPU reads, or writes.
    pub(super) const fn on_host<A: Accepts, const N: usize>(self, mode: Mode) -> Self {
        let spec = self.of_elements::<A, N>();
        let allows = spec.copies.is_some() || spec.allow_sequence;
        assert!(
            !allows || matches!(mode, Mode::Read),
            "a PyReadwriteTensor writes the argument itself; remove AllowCopy and AllowSequence"
        );
        let mut next = 0;
        while next < spec.devices.len() {
            assert!(
                spec.devices[next].is_host_accessible(),
                "the CPU cannot read this device; use PyDeviceTensor"
            );
            next += 1;
        }
        assert!(
            !allows || spec.devices.is_empty(),
            "copies are on the CPU; remove AllowCopy and AllowSequence, or the device"
        );
        assert!(
            matches!(spec.mode, Mode::Read) || matches!(mode, Mode::Write),
            "use PyReadwriteTensor for an argument that is written"
        );
        assert!(spec.times.is_empty() || !spec.allow_sequence, "lists lack a unit of time");
        let exclusive: Option<Exclusive> = match mode {
            Mode::Read => None,
            Mode::Write => Some(assert_exclusive),
        };
        Self { on_host: true, mode, exclusive, ..spec }
    }

    /// The demands of an argument that stays on its device.
    pub(super) const fn on_device<A: Accepts, const N: usize>(self) -> Self {
        let spec = self.of_elements::<A, N>();
        assert!(
            spec.copies.is_none() && !spec.allow_sequence,
            "a PyDeviceTensor never copies; remove AllowCopy and AllowSequence"
        );
        assert!(spec.times.is_empty(), "no protocol exports times on a device");
        spec
    }

    const fn of_elements<A: Accepts, const N: usize>(self) -> Self {
        assert!(
            N == DYNAMIC || self.dims.is_empty() || self.dims.len() == N,
            "there must be as many extents as dimensions"
        );
        Self {
            dtypes: A::DTYPES,
            times: A::TIMES,
            alignment: A::alignment,
            check: A::check,
            checks: A::checks,
            ndim: if N == DYNAMIC { None } else { Some(N) },
            ..self
        }
    }

    pub(super) fn import_options(&self) -> ImportOptions {
        let device = self.copies.map(|_| Device::CPU);
        ImportOptions { device, ..ImportOptions::default() }
    }
}
