//! A tensor as NumPy's `__array__`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::entrance::Entrance;
use super::to::to;
use crate::PyTensor;
use crate::frameworks::{Need, numpy};
use crate::import_options::expect_bool;

/// The result of `__array__`, with `dtype` and `copy` as NumPy passes them.
pub(crate) fn to_array<'py>(
    tensor: &Bound<'py, PyTensor>,
    dtype: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    let needs_copy = || -> PyResult<_> {
        let behaviour = &Entrance::of(py, &numpy::NUMPY)?.behaviour;
        let (this, read_only) = (tensor.get().tensor(), tensor.get().exports_read_only());
        Ok(numpy::NUMPY.needs_copy(behaviour, this, read_only))
    };
    // NumPy's own exception, which programs catch to allow the copy.
    if copy == Some(false)
        && let Some(Need { reason, remedy }) = needs_copy()?
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
            "elements of {found} become {dtype} by a copy, and copy=False forbids it; leave copy=False out"
        )));
    }
    array.call_method1(intern!(py, "astype"), (dtype,))
}
