//! The copies and conversions that an argument allows.

use super::{Casting, Constraint, Requirement, Sealed};

/// Copies an object that does not fit. The copy converts the order, alignment and byte order, moves memory of another
/// device to the CPU if the producer can, and converts dtypes all of whose values the target dtype has. Only for
/// read-only arguments.
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

/// Like [`AllowCopy`], and converts other dtypes where NumPy's rule `safe` allows it.
///
/// [`AllowCopy`] does not include these conversions: 64-bit integers to float64, and all that keep the values from
/// and to float16, bfloat16 and complex numbers.
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

/// Like [`AllowCopy`], and converts other dtypes where NumPy's rule `same_kind` allows it.
///
/// The kinds are ordered: boolean, unsigned integer, integer, float, complex. A dtype may become one of its own kind
/// or of a later kind. The values are those of NumPy's `astype`: floats are rounded, or become infinite; integers
/// that do not fit wrap around. Of several dtypes, the argument uses the first one that `safe` allows, or else the
/// first that `same_kind` allows.
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

/// Like [`AllowCopy`], and converts integers to another integer type if each value fits: int64 becomes `u8` if all
/// values are 0 to 255.
///
/// NumPy's `astype(casting="same_value")` converts integers this way. A value that does not fit is refused, and the
/// error names it and its position. Other dtypes are converted as by [`AllowCopy`], or by [`AllowSafeCast`] or
/// [`AllowCast`] if that is a constraint too. With [`AllowCast`], integers are still checked and do not wrap around.
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

/// Copies lists and tuples of Python's and NumPy's numbers into a tensor; nested lists give several dimensions. Also
/// accepts ranges, and lists of arrays and tensors of equal shapes, which it stacks. Only for read-only arguments.
///
/// Integers and booleans may become floats; floats do not become integers. An integer fits each integer type that
/// holds its value. An error names the position, such as `element [3][1]`.
/// [`is_borrowed`](crate::PyReadonlyTensor::is_borrowed) is false for a list.
///
/// If the argument accepts several dtypes and the items are NumPy's scalars or arrays of one dtype, the list becomes
/// that dtype. Otherwise it becomes the dtype that NumPy would choose for Python's numbers, or else the first of the
/// nearest kind: float64 for a `numpy.float32` and a `numpy.int16`, although NumPy chooses float32.
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
