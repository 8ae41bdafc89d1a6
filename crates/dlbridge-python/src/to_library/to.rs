//! A tensor as an object of a framework: `t.to(...)`, `t.torch()`, `numpy.asarray(t)`.

use dlbridge::{DataType, Device};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

use super::framework::{Framework, Input, Need, is_common};
use super::probe::Installed;
use super::profiles::NUMPY;
use crate::tensor::TensorObject;
use dlbridge_pyo3::import_options::{ImportOptions, expect_bool};
use dlbridge_pyo3::protocol::exchange_table;
use dlbridge_pyo3::protocol::memory::normalized;

/// As [`to`], with `copy` as Python passes it.
pub(crate) fn to_checked<'py>(
    tensor: &Bound<'py, TensorObject>,
    framework: &'static Framework,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    to(tensor, framework, copy.map(|copy| expect_bool("copy", copy)).transpose()?)
}

/// The tensor as an object of a framework: without a copy, unless the framework would otherwise get something wrong,
/// or `copy` requests one.
pub(crate) fn to<'py>(
    tensor: &Bound<'py, TensorObject>,
    framework: &'static Framework,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, this) = (tensor.py(), tensor.get());
    if let Some(reason) = framework.refusal(py, this.tensor())? {
        return Err(PyBufferError::new_err(reason));
    }
    let installed = Installed::of(py, framework)?;
    // Taken once, before it is decided whether a copy is needed: another thread may take it meanwhile.
    if copy != Some(true)
        && let Some(writable) = this.take_writable()
    {
        return to(&TensorObject::new(py, writable)?, framework, copy);
    }
    let behaviour = installed.behaviour_on(this.tensor().device());
    let needs_copy = framework.needs_copy(&behaviour, this.tensor(), this.is_read_only());
    if let (Some(Need { reason, remedy }), Some(false)) = (&needs_copy, copy) {
        return Err(PyBufferError::new_err(format!(
            "a copy would be needed, since {reason}, and copy=False forbids it; {remedy}"
        )));
    }
    let is_copied_here = (framework.copies)(this.tensor()).is_none();
    let tensor = match is_copied_here && (needs_copy.is_some() || copy == Some(true)) {
        true => &TensorObject::import(
            tensor.as_any(),
            &ImportOptions { copy: Some(true), ..ImportOptions::default() },
        )?,
        false => tensor,
    };
    let repaired;
    let tensor = match with_booleans(tensor, framework, copy)? {
        Some(copy) => {
            repaired = copy;
            &repaired
        }
        None => tensor,
    };
    let dtype = tensor.get().tensor().dtype();
    if let Some(table) = installed.table
        && is_common(dtype)
        && tensor.get().tensor().device() == Device::CPU
    {
        return exchange_table::export(py, table, tensor.get());
    }
    let input = Input { tensor, may_copy: copy != Some(false), request: behaviour.request };
    (framework.enter)(installed.function.bind(py), &input)
}

/// A copy for a framework that computes with the bytes of booleans, if some are neither 0 nor 1.
fn with_booleans<'py>(
    tensor: &Bound<'py, TensorObject>,
    framework: &Framework,
    copy: Option<bool>,
) -> PyResult<Option<Bound<'py, TensorObject>>> {
    let this = tensor.get();
    if !framework.counts_bytes || this.tensor().dtype() != DataType::BOOL {
        return Ok(None);
    }
    match normalized(this.tensor().share(), copy)? {
        (_, None) => Ok(None),
        (repaired, Some(_)) => TensorObject::new(tensor.py(), repaired).map(Some),
    }
}

/// The result of `__array__`, with `dtype` and `copy` as NumPy passes them.
pub(crate) fn to_array<'py>(
    tensor: &Bound<'py, TensorObject>,
    dtype: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, this) = (tensor.py(), tensor.get());
    let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    // NumPy's own exception, which programs catch to allow the copy.
    let forbidden = |reason: String, remedy: &str| {
        Err(PyValueError::new_err(format!("{reason}, and copy=False forbids it; {remedy}")))
    };
    if copy == Some(false) {
        let behaviour = &Installed::of(py, &NUMPY)?.behaviour;
        if let Some(Need { reason, remedy }) =
            NUMPY.needs_copy(behaviour, this.tensor(), this.exports_read_only())
        {
            return forbidden(format!("unable to avoid a copy, since {reason}"), &remedy);
        }
    }
    let array = to(tensor, &NUMPY, copy)?;
    let Some(dtype) = dtype else { return Ok(array) };
    let found = array.getattr(intern!(py, "dtype"))?;
    if found.eq(dtype)? {
        return Ok(array);
    }
    if copy == Some(false) {
        let reason = format!("elements of {found} become {dtype} by a copy");
        return forbidden(reason, "leave copy=False out");
    }
    array.call_method1(intern!(py, "astype"), (dtype,))
}
