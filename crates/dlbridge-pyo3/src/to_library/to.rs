//! A tensor as an object of a framework.

use dlbridge::{DataType, Device, Tensor};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::entrance::Entrance;
use super::names::framework;
use super::offer::Offered;
use crate::PyTensor;
use crate::frameworks::dtypes::is_common;
use crate::frameworks::{Framework, Need};
use crate::import_options::{ImportOptions, expect_bool};
use crate::protocol::exchange_table;
use crate::protocol::memory::normalized;

/// As [`to`], with arguments as Python passes them.
pub(crate) fn to_named<'py>(
    tensor: &Bound<'py, PyTensor>,
    library: &str,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    to(tensor, framework(library)?, copy)
}

/// The tensor as an object of a framework: without a copy, unless the framework would otherwise get something wrong,
/// or `copy` requests one.
pub(crate) fn to<'py>(
    tensor: &Bound<'py, PyTensor>,
    framework: &'static Framework,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, this) = (tensor.py(), tensor.get());
    if let Some(reason) = refusal(py, framework, this.tensor())? {
        return Err(PyBufferError::new_err(reason));
    }
    let entrance = Entrance::of(py, framework)?;
    if let Some(reason) = entrance.misreads(py, framework, this.tensor())? {
        return Err(PyBufferError::new_err(reason));
    }
    // Taken once, before it is decided whether a copy is needed: another thread may take it meanwhile.
    if copy != Some(true)
        && let Some(writable) = this.take_writable()
    {
        return to(&Bound::new(py, writable)?, framework, copy);
    }
    let behaviour = entrance.behaviour_on(this.tensor().device());
    let needs_copy = framework.needs_copy(behaviour, this.tensor(), this.is_read_only());
    if let (Some(Need { reason, remedy }), Some(false)) = (&needs_copy, copy) {
        return Err(PyBufferError::new_err(format!(
            "a copy would be needed, since {reason}, and copy=False forbids it; {remedy}"
        )));
    }
    let is_copied_here = !(framework.copies_itself)(this.tensor());
    let tensor = match is_copied_here && (needs_copy.is_some() || copy == Some(true)) {
        true => &PyTensor::import(
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
    if let Some(table) = entrance.table
        && is_common(dtype)
        && tensor.get().tensor().device() == Device::CPU
    {
        return exchange_table::export(py, table, tensor.get());
    }
    let offered = Offered { tensor, may_copy: copy != Some(false), request: behaviour.request };
    (framework.enter)(entrance.function.bind(py), &offered)
}

/// A new tensor of our own as an object of a framework. If the framework has a table, the table gets the tensor
/// directly, without a Python object of ours.
pub(crate) fn give<'py>(
    py: Python<'py>,
    tensor: PyTensor,
    framework: &'static Framework,
) -> PyResult<Bound<'py, PyAny>> {
    let new = tensor.tensor();
    let (dtype, device) = (new.dtype(), new.device());
    let as_it_is = is_common(dtype)
        && dtype != DataType::BOOL
        && device == Device::CPU
        && framework.table_of.is_some()
        && refusal(py, framework, new)?.is_none();
    if as_it_is
        && let Entrance { table: Some(table), behaviour, .. } = Entrance::of(py, framework)?
        && framework.needs_copy(behaviour, new, tensor.is_read_only()).is_none()
    {
        return match tensor.into_tensor() {
            Ok(tensor) => table.give(py, tensor),
            Err(tensor) => to(&Bound::new(py, tensor)?, framework, None),
        };
    }
    to(&Bound::new(py, tensor)?, framework, None)
}

/// A copy for a framework that computes with the bytes of booleans, if some are neither 0 nor 1.
fn with_booleans<'py>(
    tensor: &Bound<'py, PyTensor>,
    framework: &Framework,
    copy: Option<bool>,
) -> PyResult<Option<Bound<'py, PyTensor>>> {
    let this = tensor.get();
    if !framework.counts_bytes || this.tensor().dtype() != DataType::BOOL {
        return Ok(None);
    }
    match normalized(this.tensor().share(), copy)? {
        (_, None) => Ok(None),
        (repaired, Some(_)) => Bound::new(tensor.py(), PyTensor::from(repaired)).map(Some),
    }
}

/// Why a framework cannot import a tensor: permanent reasons, and those of its present settings.
pub(super) fn refusal(
    py: Python<'_>,
    framework: &Framework,
    tensor: &Tensor,
) -> PyResult<Option<String>> {
    match framework.refuses(tensor) {
        None => (framework.settings)(py, tensor.dtype()),
        reason => Ok(reason),
    }
}
