//! What an argument must be beside its dtype and its number of dimensions.

use dlbridge::DeviceType;

use crate::order::Order;

/// What a typed argument must be, as a type: `()` for nothing more, or any of [`COrder`],
/// [`FortranOrder`], [`Contiguous`], [`Aligned`], [`Dims`], [`OnDevice`], [`OnCuda`], [`OnRocm`], [`Writable`],
/// [`AllowCopy`], [`AllowSafeCast`], [`AllowCast`], [`AllowCheckedCast`], [`AllowSequence`]; several as a tuple of up to six.
///
/// ```
/// use dlbridge_pyo3::{Aligned, COrder, Constraint, dims};
///
/// type Picture = (dims!(_, _, 3), COrder, Aligned<16>);
/// assert_eq!(Picture::REQUIREMENT.dims, [None, None, Some(3)]);
/// assert_eq!(Picture::REQUIREMENT.align, 16);
/// ```
///
/// There are no others: the trait cannot be implemented outside of this crate.
pub trait Constraint: Sealed {
    /// The same as a value.
    ///
    /// ```
    /// use dlbridge_pyo3::Constraint;
    ///
    /// assert_eq!(<()>::REQUIREMENT.align, 1);
    /// ```
    const REQUIREMENT: Requirement;
}

/// Keeps the constraints those of this crate.
pub trait Sealed: 'static {}

/// What a [`Constraint`] demands.
///
/// ```
/// use dlbridge_pyo3::{AllowCopy, Constraint};
///
/// assert!(AllowCopy::REQUIREMENT.allow_copy);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Requirement {
    /// The extents that are fixed, one for each axis; empty if none is.
    pub dims: &'static [Option<usize>],
    /// The order of the elements.
    pub order: Order,
    /// What the address of the first element must be a multiple of, in bytes.
    pub align: usize,
    /// The types of devices on which the data may be; empty for every one that the argument takes.
    pub devices: &'static [DeviceType],
    /// Whether the data must be such that it may be written.
    pub writable: bool,
    /// Whether what does not fit may be copied.
    pub allow_copy: bool,
    /// The casting rule for elements of another dtype; `None` for the rule of [`AllowCopy`].
    pub cast: Option<Casting>,
    /// True if integers become those of another type that has their values.
    pub check_integers: bool,
    /// True if lists and tuples of numbers become tensors.
    pub allow_sequence: bool,
}

/// A rule of NumPy that says which dtypes are converted to which.
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

    /// Whether the CPU can read all of the devices that are named.
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

    /// Both.
    const fn and(self, other: Self) -> Self {
        let dims = match (self.dims, other.dims) {
            ([], dims) | (dims, []) => dims,
            _ => panic!("the extents are given twice"),
        };
        let order = match (self.order, other.order) {
            (Order::Strided, order) | (order, Order::Strided) => order,
            _ => panic!("two orders are asked for"),
        };
        let align = if self.align > other.align { self.align } else { other.align };
        let devices = match (self.devices, other.devices) {
            ([], devices) | (devices, []) => devices,
            _ => panic!("the device is given twice"),
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

/// Elements that are contiguous in C order, the last index fastest: `as_slice` is always there.
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

/// A first element at an address that is a multiple of `N` bytes, a power of two.
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

/// What does not fit is converted, by a copy: order, alignment, byte order, memory of another device
/// that its producer can move to the CPU, and a dtype all of whose values the wanted one has. Only for
/// arguments that are read.
///
/// ```no_run
/// use dlbridge_pyo3::{AllowCopy, COrder, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// /// Takes integers of 32 bits and transposed matrices too.
/// #[pyfunction]
/// fn total(x: PyReadonlyTensor<'_, f64, 2, (COrder, AllowCopy)>) -> f64 {
///     x.slice().iter().sum()
/// }
/// ```
pub struct AllowCopy;

impl Sealed for AllowCopy {}

impl Constraint for AllowCopy {
    const REQUIREMENT: Requirement = Requirement { allow_copy: true, ..Requirement::NONE };
}

/// As [`AllowCopy`], and elements of another dtype are converted where NumPy's rule `safe` allows that.
///
/// Beyond [`AllowCopy`] these are 64-bit integers to float64, and all conversions from and to float16, bfloat16 and complex
/// numbers that keep the values.
///
/// ```no_run
/// use dlbridge_pyo3::{AllowSafeCast, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// /// Takes int64, float32 and float64.
/// #[pyfunction]
/// fn total(x: PyReadonlyTensor<'_, f64, 1, AllowSafeCast>) -> f64 {
///     x.iter().sum()
/// }
/// ```
pub struct AllowSafeCast;

impl Sealed for AllowSafeCast {}

impl Constraint for AllowSafeCast {
    const REQUIREMENT: Requirement =
        Requirement { allow_copy: true, cast: Some(Casting::Safe), ..Requirement::NONE };
}

/// As [`AllowCopy`], and elements of another dtype are converted where NumPy's rule `same_kind` allows that.
///
/// The order of kinds is boolean, unsigned integer, integer, float, complex: a dtype becomes one of its own kind or of a later
/// one. The values are those of NumPy's `astype`: floats are rounded, or become infinite; integers that do not fit wrap around.
/// Of several dtypes the first one is chosen that the rule `safe` allows, or else the first that `same_kind` does.
///
/// ```no_run
/// use dlbridge_pyo3::{AllowCast, AllowSequence, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// /// Takes all integers and floats, and lists of them.
/// #[pyfunction]
/// fn total(x: PyReadonlyTensor<'_, f32, 1, (AllowCast, AllowSequence)>) -> f32 {
///     x.iter().sum()
/// }
/// ```
pub struct AllowCast;

impl Sealed for AllowCast {}

impl Constraint for AllowCast {
    const REQUIREMENT: Requirement =
        Requirement { allow_copy: true, cast: Some(Casting::SameKind), ..Requirement::NONE };
}

/// As [`AllowCopy`], and integers become those of another type if each value fits: int64 becomes `u8` if all values are 0 to 255.
///
/// NumPy's `astype(casting="same_value")` converts integers this way. A value that does not fit is refused, and the error names it and its
/// position. Other dtypes are converted as [`AllowCopy`] converts them, or [`AllowSafeCast`] or [`AllowCast`] if that is a constraint too;
/// beside [`AllowCast`] integers are checked, and do not wrap around.
///
/// ```no_run
/// use dlbridge_pyo3::{AllowCheckedCast, AllowSequence, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// /// Takes all integers without a negative one, and lists of them.
/// #[pyfunction]
/// fn largest(x: PyReadonlyTensor<'_, usize, 1, (AllowCheckedCast, AllowSequence)>) -> Option<usize> {
///     x.iter().copied().max()
/// }
/// ```
pub struct AllowCheckedCast;

impl Sealed for AllowCheckedCast {}

impl Constraint for AllowCheckedCast {
    const REQUIREMENT: Requirement =
        Requirement { allow_copy: true, check_integers: true, ..Requirement::NONE };
}

/// Lists and tuples of Python's and NumPy's numbers are copied into a tensor; nested ones for several dimensions. Also ranges, and
/// lists of arrays and tensors of equal shapes, which are stacked.
/// Only for arguments that are read.
///
/// Integers and booleans become floats, floats do not become integers. An integer becomes each integer type that has its value.
/// An error names the position,
/// for instance `element [3][1]`. [`is_borrowed`](crate::PyReadonlyTensor::is_borrowed) is false for a list.
///
/// Of several dtypes the list becomes that of its items, if they are NumPy's scalars or arrays of one dtype. Otherwise it becomes the
/// one that NumPy would choose for Python's numbers, or else the first of the nearest kind: float64 for a `numpy.float32` and a
/// `numpy.int16`, where NumPy has float32.
///
/// ```no_run
/// use dlbridge_pyo3::{AllowSequence, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// /// Takes `[1, 2.5]` and tensors of float64.
/// #[pyfunction]
/// fn total(x: PyReadonlyTensor<'_, f64, 1, AllowSequence>) -> f64 {
///     x.iter().sum()
/// }
/// ```
pub struct AllowSequence;

impl Sealed for AllowSequence {}

impl Constraint for AllowSequence {
    const REQUIREMENT: Requirement = Requirement { allow_sequence: true, ..Requirement::NONE };
}

/// Data on a device of one type, by its code in DLPack.
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

/// Data on a device of CUDA, unified memory included.
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

/// Data on a device of ROCm.
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

/// Data that may be written, of a [`PyDeviceTensor`](crate::PyDeviceTensor).
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

/// An extent that may be anything, in [`Dims`].
///
/// ```
/// use dlbridge_pyo3::{ANY, Constraint, Dims};
///
/// assert_eq!(Dims::<ANY, 3>::REQUIREMENT.dims, [None, Some(3)]);
/// ```
pub const ANY: i64 = -1;

/// An axis that is not there, in [`Dims`].
const NONE: i64 = -2;

/// Extents, one for each axis, up to six: a number for one that is fixed, [`ANY`] for others. The macro
/// [`dims!`](crate::dims) writes it.
///
/// ```
/// use dlbridge_pyo3::{ANY, Constraint, Dims};
///
/// assert_eq!(Dims::<ANY, ANY, 3>::REQUIREMENT.dims, [None, None, Some(3)]);
/// ```
pub struct Dims<
    const A: i64,
    const B: i64 = NONE,
    const C: i64 = NONE,
    const D: i64 = NONE,
    const E: i64 = NONE,
    const F: i64 = NONE,
>;

impl<const A: i64, const B: i64, const C: i64, const D: i64, const E: i64, const F: i64>
    Dims<A, B, C, D, E, F>
{
    const EXTENTS: [Option<usize>; 6] = [
        Self::extent(A),
        Self::extent(B),
        Self::extent(C),
        Self::extent(D),
        Self::extent(E),
        Self::extent(F),
    ];

    const fn extent(extent: i64) -> Option<usize> {
        assert!(extent >= NONE, "an extent is a number or ANY");
        if extent < 0 { None } else { Some(extent as usize) }
    }

    const fn count() -> usize {
        let all = [A, B, C, D, E, F];
        let mut count = 0;
        while count < all.len() && all[count] != NONE {
            count += 1;
        }
        let mut rest = count;
        while rest < all.len() {
            assert!(all[rest] == NONE, "an extent is a number or ANY");
            rest += 1;
        }
        count
    }
}

impl<const A: i64, const B: i64, const C: i64, const D: i64, const E: i64, const F: i64> Sealed
    for Dims<A, B, C, D, E, F>
{
}

impl<const A: i64, const B: i64, const C: i64, const D: i64, const E: i64, const F: i64> Constraint
    for Dims<A, B, C, D, E, F>
{
    const REQUIREMENT: Requirement =
        Requirement { dims: Self::EXTENTS.split_at(Self::count()).0, ..Requirement::NONE };
}

/// The type of extents, with `_` for those that may be anything.
///
/// ```
/// use dlbridge_pyo3::{Constraint, dims};
///
/// const CHANNELS: i64 = 4;
/// assert_eq!(<dims!(_, 2, { CHANNELS })>::REQUIREMENT.dims, [None, Some(2), Some(4)]);
/// ```
#[macro_export]
macro_rules! dims {
    (@ [$($known:tt)*]) => { $crate::Dims<$($known)*> };
    (@ [$($known:tt)*] _ $(, $($rest:tt)*)?) => {
        $crate::dims!(@ [$($known)* { $crate::ANY },] $($($rest)*)?)
    };
    (@ [$($known:tt)*] $extent:tt $(, $($rest:tt)*)?) => {
        $crate::dims!(@ [$($known)* $extent,] $($($rest)*)?)
    };
    ($($extent:tt)+) => { $crate::dims!(@ [] $($extent)+) };
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

/// A constraint under which the elements are adjacent in C order.
///
/// ```
/// fn is_adjacent<C: dlbridge_pyo3::InCOrder>() {}
///
/// is_adjacent::<dlbridge_pyo3::COrder>();
/// ```
pub trait InCOrder: Constraint {}

impl InCOrder for COrder {}
impl<B: Constraint> InCOrder for (COrder, B) {}
impl<B: Constraint, C: Constraint> InCOrder for (COrder, B, C) {}
