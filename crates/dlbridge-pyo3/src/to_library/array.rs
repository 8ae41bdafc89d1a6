//! A tensor as NumPy's `__array__`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::to::to;
use crate::PyTensor;
use crate::frameworks::{Need, numpy};
use crate::wanted::expect_bool;

/// The tensor as `__array__` is to answer: `dtype` and `copy` as NumPy passes them.
pub(crate) fn to_array<'py>(
    tensor: &Bound<'py, PyTensor>,
    dtype: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    // NumPy's own exception, which programs catch to allow the copy.
    if let (Some(false), Some(Need { reason, remedy })) =
        (copy, numpy::NUMPY.needs_copy(tensor.get().tensor(), tensor.get().is_read_only()))
    {
        return Err(PyValueError::new_err(format!(
            "unable to avoid a copy, since {reason}, and copy=False forbids it; {remedy}"
        )));
    }
    let array = to(tensor, &numpy::NUMPY, copy)?;
    let Some(dtype) = dtype else { return Ok(array) };
    let found = array.getattr(intern!(py, "dtype"))?;
    if found.eq(dtype)? {
        return Ok(array);
    }
    if copy == Some(false) {
        return Err(PyValueError::new_err(format!(
            "elements of {found} become {dtype} by a copy, and copy=False forbids it"
        )));
    }
    array.call_method1(intern!(py, "astype"), (dtype,))
}
