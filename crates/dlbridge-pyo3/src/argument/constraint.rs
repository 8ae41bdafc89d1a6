//! The demands of an argument besides its dtype and its number of dimensions, as types.

use dlbridge::DeviceType;
use dlbridge_borrow::Mode;

use super::spec::ArgumentSpec;
use crate::import_options::Order;

/// The demands of a typed argument, as a type: `()` for none, or any of [`COrder`], [`FortranOrder`], [`Contiguous`],
/// [`Aligned`], [`dims!`](crate::dims), [`OnDevice`], [`OnCuda`], [`Writable`], [`AllowCopy`], [`AllowCast`],
/// [`AllowSequence`]; a tuple combines up to six.
///
/// ```no_run
/// use dlbridge_pyo3::{Aligned, COrder, PyReadonlyTensor, dims};
///
/// type Picture<'py> = PyReadonlyTensor<'py, u8, 3, (COrder, dims!(_, _, 3), Aligned<16>)>;
///
/// fn pixels(picture: Picture<'_>) -> usize {
///     picture.slice().len() / 3
/// }
/// ```
///
/// Other crates cannot implement this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a constraint of an argument",
    label = "not a `Constraint`",
    note = "the fourth parameter is a constraint such as `COrder` or `AllowCopy`, or a tuple of up to six: `(COrder, AllowCopy)`"
)]
pub trait Constraint: 'static {
    /// The demands as a value. Other crates cannot name its type.
    #[doc(hidden)]
    const SPEC: ArgumentSpec;
}

impl Constraint for () {
    const SPEC: ArgumentSpec = ArgumentSpec::ANY;
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

impl Constraint for COrder {
    const SPEC: ArgumentSpec = ArgumentSpec { order: Order::C, ..ArgumentSpec::ANY };
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

impl Constraint for FortranOrder {
    const SPEC: ArgumentSpec = ArgumentSpec { order: Order::Fortran, ..ArgumentSpec::ANY };
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

impl Constraint for Contiguous {
    const SPEC: ArgumentSpec = ArgumentSpec { order: Order::Either, ..ArgumentSpec::ANY };
}

/// A first element whose address is a multiple of `N` bytes, a power of two.
///
/// ```no_run
/// use dlbridge_pyo3::{Aligned, PyReadonlyTensor};
///
/// fn total(x: PyReadonlyTensor<'_, f32, 1, Aligned<64>>) -> f32 {
///     x.iter().sum()
/// }
/// ```
pub struct Aligned<const N: usize>;

impl<const N: usize> Constraint for Aligned<N> {
    const SPEC: ArgumentSpec = {
        assert!(N.is_power_of_two() && N <= 256, "an alignment is a power of two, at most 256");
        ArgumentSpec { align: N, ..ArgumentSpec::ANY }
    };
}

/// Data on devices of one type, given by its DLPack code.
///
/// ```no_run
/// use dlbridge::DeviceType;
/// use dlbridge_pyo3::{OnDevice, PyReadonlyTensor};
///
/// type Pinned = OnDevice<{ DeviceType::CUDA_HOST.code() }>;
///
/// fn total(x: PyReadonlyTensor<'_, f32, 1, Pinned>) -> f32 {
///     x.iter().sum()
/// }
/// ```
pub struct OnDevice<const CODE: i32>;

impl<const CODE: i32> Constraint for OnDevice<CODE> {
    const SPEC: ArgumentSpec =
        ArgumentSpec { devices: &[DeviceType::from_code(CODE)], ..ArgumentSpec::ANY };
}

/// Data on CUDA devices, unified memory included.
///
/// ```no_run
/// use dlbridge_pyo3::{OnCuda, PyDeviceTensor, WorkStream};
///
/// fn len(x: PyDeviceTensor<'_, f32, 1, WorkStream, OnCuda>) -> usize {
///     x.len()
/// }
/// ```
pub struct OnCuda;

impl Constraint for OnCuda {
    const SPEC: ArgumentSpec = ArgumentSpec {
        devices: &[DeviceType::CUDA, DeviceType::CUDA_MANAGED],
        ..ArgumentSpec::ANY
    };
}

/// Writable data, for a [`PyDeviceTensor`](crate::PyDeviceTensor).
///
/// ```no_run
/// use dlbridge_pyo3::{OnCuda, PyDeviceTensor, Writable, WorkStream};
///
/// fn target(x: PyDeviceTensor<'_, f32, 1, WorkStream, (OnCuda, Writable)>) -> *mut f32 {
///     x.data().cast()
/// }
/// ```
pub struct Writable;

impl Constraint for Writable {
    const SPEC: ArgumentSpec = ArgumentSpec { mode: Mode::Write, ..ArgumentSpec::ANY };
}

/// Copies an object that does not fit. The copy converts the order, alignment and byte order, moves memory of another
/// device to the CPU if the producer can, and converts dtypes all of whose values the target dtype has. An argument of two
/// dimensions also takes a table, such as a `DataFrame`, as a matrix of its columns. Only for read-only arguments.
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

impl Constraint for AllowCopy {
    const SPEC: ArgumentSpec =
        ArgumentSpec { copies: Some(ArgumentSpec::COPIES), ..ArgumentSpec::ANY };
}

/// Like [`AllowCopy`], and converts to other dtypes of the same or a later kind: boolean, integer, float, complex.
///
/// These are the conversions of NumPy's rule `same_kind`, with the values of `astype`: floats are rounded, or become
/// infinite with a warning. But an integer becomes another integer type only if that has its value; the error names the
/// first element that does not fit, and its position. Of several dtypes, the argument uses the first one that NumPy's
/// rule `safe` allows, or else, for integers, the first integer type, or else the first that this constraint allows.
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

impl Constraint for AllowCast {
    const SPEC: ArgumentSpec =
        ArgumentSpec { copies: Some(ArgumentSpec::COPIES), allow_cast: true, ..ArgumentSpec::ANY };
}

/// Copies lists and tuples of Python's and NumPy's numbers into a tensor; nested lists give several dimensions. Also
/// accepts ranges, and lists of arrays and tensors of equal shapes, which it stacks. Only for read-only arguments.
///
/// Integers and booleans may become floats; floats do not become integers. An integer fits each integer type that
/// holds its value. The error of an item names its position, such as `element [3][1]`; other errors have NumPy's words.
/// [`is_borrowed`](crate::PyReadonlyTensor::is_borrowed) is false for a list.
///
/// NumPy makes an array of the list, except of a list of floats and integers, which a loop reads without NumPy. If the
/// argument accepts several dtypes, the list becomes the dtype of that array, or else the first of the nearest kind.
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

impl Constraint for AllowSequence {
    const SPEC: ArgumentSpec = ArgumentSpec { allow_sequence: true, ..ArgumentSpec::ANY };
}

/// A free extent in [`Dims`].
#[doc(hidden)]
pub const ANY: i64 = -1;

/// A missing dimension in [`Dims`].
const NONE: i64 = -2;

/// Extents, which [`dims!`](crate::dims) writes: a number for a fixed one, [`ANY`] for a free one.
#[doc(hidden)]
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

impl<const A: i64, const B: i64, const C: i64, const D: i64, const E: i64, const F: i64> Constraint
    for Dims<A, B, C, D, E, F>
{
    const SPEC: ArgumentSpec =
        ArgumentSpec { dims: Self::EXTENTS.split_at(Self::count()).0, ..ArgumentSpec::ANY };
}

/// The constraint that an argument has these extents, one for each dimension, up to six; `_` is a free one.
///
/// ```no_run
/// use dlbridge_pyo3::{PyReadonlyTensor, dims};
///
/// const CHANNELS: i64 = 4;
///
/// fn rows(x: PyReadonlyTensor<'_, f32, 3, dims!(_, 2, { CHANNELS })>) -> usize {
///     x.dims()[0]
/// }
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
                impl<$($name: Constraint),+> Constraint for ($($name,)+) {
            const SPEC: ArgumentSpec = ArgumentSpec::ANY$(.and($name::SPEC))+;
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
