//! The demands of an argument besides its dtype and its number of dimensions.

mod copies;
mod extents;

use dlbridge::DeviceType;

use crate::order::Order;

pub use copies::{AllowCast, AllowCheckedCast, AllowCopy, AllowSafeCast, AllowSequence};
pub use extents::{ANY, Dims};

/// The demands of a typed argument, as a type: `()` for none, or any of [`COrder`], [`FortranOrder`], [`Contiguous`],
/// [`Aligned`], [`Dims`], [`OnDevice`], [`OnCuda`], [`OnRocm`], [`Writable`], [`AllowCopy`], [`AllowSafeCast`],
/// [`AllowCast`], [`AllowCheckedCast`], [`AllowSequence`]; a tuple combines up to six.
///
/// ```
/// use dlbridge_pyo3::{Aligned, COrder, Constraint, dims};
///
/// type Picture = (dims!(_, _, 3), COrder, Aligned<16>);
/// assert_eq!(Picture::REQUIREMENT.dims, [None, None, Some(3)]);
/// assert_eq!(Picture::REQUIREMENT.align, 16);
/// ```
///
/// Other crates cannot implement this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a constraint of an argument",
    label = "not a `Constraint`",
    note = "the fourth parameter is a constraint such as `COrder` or `AllowCopy`, or a tuple of up to six: `(COrder, AllowCopy)`"
)]
pub trait Constraint: Sealed {
    /// The demands as a value.
    ///
    /// ```
    /// use dlbridge_pyo3::Constraint;
    ///
    /// assert_eq!(<()>::REQUIREMENT.align, 1);
    /// ```
    const REQUIREMENT: Requirement;
}

/// Prevents other crates from implementing [`Constraint`].
pub trait Sealed: 'static {}

/// The demands of a [`Constraint`].
///
/// ```
/// use dlbridge_pyo3::{AllowCopy, Constraint};
///
/// assert!(AllowCopy::REQUIREMENT.allow_copy);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Requirement {
    /// The fixed extents, one for each dimension; empty if all are free.
    pub dims: &'static [Option<usize>],
    /// The order of the elements.
    pub order: Order,
    /// Required alignment of the first element, in bytes.
    pub align: usize,
    /// The device types that the data may be on; empty for every one that the argument supports.
    pub devices: &'static [DeviceType],
    /// True if the data must be writable.
    pub writable: bool,
    /// True if an object that does not fit may be copied.
    pub allow_copy: bool,
    /// The casting rule for elements of another dtype; `None` means the rule of [`AllowCopy`].
    pub cast: Option<Casting>,
    /// True if integers are converted to another integer type that holds their values.
    pub check_integers: bool,
    /// True if lists and tuples of numbers are converted to tensors.
    pub allow_sequence: bool,
}

/// NumPy's casting rules, which decide the dtypes that may be converted to each other.
///
/// ```
/// use dlbridge_pyo3::{AllowCast, Casting, Constraint};
///
/// assert_eq!(AllowCast::REQUIREMENT.cast, Some(Casting::SameKind));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Casting {
    /// `safe`: int32 to float64, and also int64 to float64, which rounds.
    Safe,
    /// `same_kind`: also float64 to float32 and int64 to int32, but not float64 to int64.
    SameKind,
}

impl Requirement {
    const NONE: Self = Self {
        dims: &[],
        order: Order::Strided,
        align: 1,
        devices: &[],
        writable: false,
        allow_copy: false,
        cast: None,
        check_integers: false,
        allow_sequence: false,
    };

    /// Returns true if the CPU can read the memory of every listed device.
    pub(super) const fn on_host(&self) -> bool {
        let mut next = 0;
        while next < self.devices.len() {
            if !self.devices[next].is_host_accessible() {
                return false;
            }
            next += 1;
        }
        true
    }

    /// Combines both.
    const fn and(self, other: Self) -> Self {
        let dims = match (self.dims, other.dims) {
            ([], dims) | (dims, []) => dims,
            _ => panic!("the constraints give the extents twice"),
        };
        let order = match (self.order, other.order) {
            (Order::Strided, order) | (order, Order::Strided) => order,
            _ => panic!("the constraints give two orders"),
        };
        let align = if self.align > other.align { self.align } else { other.align };
        let devices = match (self.devices, other.devices) {
            ([], devices) | (devices, []) => devices,
            _ => panic!("the constraints give the device twice"),
        };
        let writable = self.writable || other.writable;
        let allow_copy = self.allow_copy || other.allow_copy;
        let allow_sequence = self.allow_sequence || other.allow_sequence;
        let check_integers = self.check_integers || other.check_integers;
        let cast = match (self.cast, other.cast) {
            (Some(Casting::SameKind), _) | (_, Some(Casting::SameKind)) => Some(Casting::SameKind),
            (Some(Casting::Safe), _) | (_, Some(Casting::Safe)) => Some(Casting::Safe),
            (None, None) => None,
        };
        Self {
            dims,
            order,
            align,
            devices,
            writable,
            allow_copy,
            cast,
            check_integers,
            allow_sequence,
        }
    }
}

impl Sealed for () {}

impl Constraint for () {
    const REQUIREMENT: Requirement = Requirement::NONE;
}

/// Elements that are contiguous in C order, the last index fastest, so that `slice` always works.
///
/// ```no_run
/// use dlbridge_pyo3::{COrder, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn total(x: PyReadonlyTensor<'_, f32, 2, COrder>) -> f32 {
///     x.slice().iter().sum()
/// }
/// ```
pub struct COrder;

impl Sealed for COrder {}

impl Constraint for COrder {
    const REQUIREMENT: Requirement = Requirement { order: Order::C, ..Requirement::NONE };
}

/// Elements that are contiguous in Fortran order, the first index fastest.
///
/// ```no_run
/// use dlbridge_pyo3::{FortranOrder, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn columns(x: PyReadonlyTensor<'_, f64, 2, FortranOrder>) -> i64 {
///     x.shape()[1]
/// }
/// ```
pub struct FortranOrder;

impl Sealed for FortranOrder {}

impl Constraint for FortranOrder {
    const REQUIREMENT: Requirement = Requirement { order: Order::Fortran, ..Requirement::NONE };
}

/// Elements that are contiguous in C or in Fortran order.
///
/// ```no_run
/// use dlbridge_pyo3::{Contiguous, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn elements(x: PyReadonlyTensor<'_, u8, 3, Contiguous>) -> usize {
///     x.len()
/// }
/// ```
pub struct Contiguous;

impl Sealed for Contiguous {}

impl Constraint for Contiguous {
    const REQUIREMENT: Requirement = Requirement { order: Order::Either, ..Requirement::NONE };
}

/// A first element whose address is a multiple of `N` bytes, a power of two.
///
/// ```
/// use dlbridge_pyo3::{Aligned, Constraint};
///
/// assert_eq!(Aligned::<64>::REQUIREMENT.align, 64);
/// ```
pub struct Aligned<const N: usize>;

impl<const N: usize> Sealed for Aligned<N> {}

impl<const N: usize> Constraint for Aligned<N> {
    const REQUIREMENT: Requirement = {
        assert!(N.is_power_of_two() && N <= 256, "an alignment is a power of two, at most 256");
        Requirement { align: N, ..Requirement::NONE }
    };
}

/// Data on devices of one type, given by its DLPack code.
///
/// ```
/// use dlbridge::DeviceType;
/// use dlbridge_pyo3::{Constraint, OnDevice};
///
/// type Pinned = OnDevice<{ DeviceType::CUDA_HOST.code() }>;
/// assert_eq!(Pinned::REQUIREMENT.devices, [DeviceType::CUDA_HOST]);
/// ```
pub struct OnDevice<const CODE: i32>;

impl<const CODE: i32> Sealed for OnDevice<CODE> {}

impl<const CODE: i32> Constraint for OnDevice<CODE> {
    const REQUIREMENT: Requirement =
        Requirement { devices: &[DeviceType::from_code(CODE)], ..Requirement::NONE };
}

/// Data on CUDA devices, unified memory included.
///
/// ```
/// use dlbridge::DeviceType;
/// use dlbridge_pyo3::{Constraint, OnCuda};
///
/// assert_eq!(OnCuda::REQUIREMENT.devices, [DeviceType::CUDA, DeviceType::CUDA_MANAGED]);
/// ```
pub struct OnCuda;

impl Sealed for OnCuda {}

impl Constraint for OnCuda {
    const REQUIREMENT: Requirement =
        Requirement { devices: &[DeviceType::CUDA, DeviceType::CUDA_MANAGED], ..Requirement::NONE };
}

/// Data on ROCm devices.
///
/// ```
/// use dlbridge::DeviceType;
/// use dlbridge_pyo3::{Constraint, OnRocm};
///
/// assert_eq!(OnRocm::REQUIREMENT.devices, [DeviceType::ROCM]);
/// ```
pub struct OnRocm;

impl Sealed for OnRocm {}

impl Constraint for OnRocm {
    const REQUIREMENT: Requirement =
        Requirement { devices: &[DeviceType::ROCM], ..Requirement::NONE };
}

/// Writable data, for a [`PyDeviceTensor`](crate::PyDeviceTensor).
///
/// ```
/// use dlbridge_pyo3::{Constraint, Writable};
///
/// assert!(Writable::REQUIREMENT.writable);
/// ```
pub struct Writable;

impl Sealed for Writable {}

impl Constraint for Writable {
    const REQUIREMENT: Requirement = Requirement { writable: true, ..Requirement::NONE };
}

macro_rules! tuples {
    ($($name:ident),+) => {
        impl<$($name: Constraint),+> Sealed for ($($name,)+) {}

        impl<$($name: Constraint),+> Constraint for ($($name,)+) {
            const REQUIREMENT: Requirement = Requirement::NONE$(.and($name::REQUIREMENT))+;
        }
    };
}

tuples!(A);
tuples!(A, B);
tuples!(A, B, C);
tuples!(A, B, C, D);
tuples!(A, B, C, D, E);
tuples!(A, B, C, D, E, F);

/// A constraint that includes C order.
///
/// ```
/// fn is_contiguous<C: dlbridge_pyo3::InCOrder>() {}
///
/// is_contiguous::<dlbridge_pyo3::COrder>();
/// ```
#[diagnostic::on_unimplemented(
    message = "only an argument in C order is one slice",
    label = "the constraint `{Self}` is neither `COrder` nor a tuple that begins with it",
    note = "write `COrder`, or put it first in the tuple: `(COrder, AllowCopy)`; or use `as_slice()`, which returns an `Option`"
)]
pub trait InCOrder: Constraint {}

impl InCOrder for COrder {}
impl<B: Constraint> InCOrder for (COrder, B) {}
impl<B: Constraint, C: Constraint> InCOrder for (COrder, B, C) {}
impl<B: Constraint, C: Constraint, D: Constraint> InCOrder for (COrder, B, C, D) {}
impl<B: Constraint, C: Constraint, D: Constraint, E: Constraint> InCOrder for (COrder, B, C, D, E) {}
impl<B: Constraint, C: Constraint, D: Constraint, E: Constraint, F: Constraint> InCOrder
    for (COrder, B, C, D, E, F)
{
}
