//! A tensor as an object of the library that another object belongs to.

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use super::framework::{Columns, Framework};
use super::probe::is_refusal;
use super::to::to;
use crate::tensor::TensorObject;
use dlbridge_pyo3::error::type_name;
use dlbridge_pyo3::import_options::{ImportOptions, expect_bool};
use dlbridge_pyo3::protocol::exchange_api::Table;
use dlbridge_pyo3::protocol::{buffer, exchange_table};

/// Make an object of the library that `likeness` belongs to, from anything that `asdlpack` imports.
///
/// For bytes, bytearray, array.array and mmap, the result is a memoryview.
#[pyfunction]
#[pyo3(signature = (likeness, obj, /, *, copy=None))]
pub(crate) fn like<'py>(
    likeness: &Bound<'py, PyAny>,
    obj: &Bound<'py, PyAny>,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    let options = ImportOptions { copy, ..ImportOptions::default() };
    let tensor = TensorObject::import(obj, &options)?;
    if likeness.is_instance_of::<TensorObject>() {
        return Ok(tensor.into_any());
    }
    // A copy that the import made needs no second copy on export.
    let made = like_tensor(likeness, &tensor, copy.filter(|&copy| !copy))?;
    made.ok_or_else(|| {
        PyTypeError::new_err(format!(
            "{} belongs to an unknown library; use asdlpack(obj) and that library's function to make \
             tensors; or asdlpack(obj).numpy(), which most libraries import",
            type_name(likeness)
        ))
    })
}

/// The result of an extension as an object of the library that `likeness` belongs to; unchanged if that is not known.
#[pyfunction]
#[pyo3(name = "_like")]
pub(crate) fn like_result<'py>(
    likeness: &Bound<'py, PyAny>,
    tensor: &Bound<'py, TensorObject>,
) -> PyResult<Bound<'py, PyAny>> {
    if likeness.is_instance_of::<TensorObject>() {
        return Ok(tensor.clone().into_any());
    }
    let made = like_tensor(likeness, tensor, None)?;
    Ok(made.unwrap_or_else(|| tensor.clone().into_any()))
}

/// A tensor as an object of the library that `likeness` belongs to; `None` if that is not known.
fn like_tensor<'py>(
    likeness: &Bound<'py, PyAny>,
    tensor: &Bound<'py, TensorObject>,
    copy: Option<bool>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = likeness.py();
    if let Some(framework) = Framework::of_object(likeness)? {
        return to(tensor, framework, copy).map(Some);
    }
    if let Some(table) = Table::of_type(&likeness.get_type())? {
        tensor.get().in_default_order(py)?;
        return exchange_table::export(py, table, tensor.get()).map(Some);
    }
    if buffer::is_supported(likeness) {
        return Ok(Some(PyMemoryView::from(tensor.as_any())?.into_any()));
    }
    Ok(None)
}

/// An array of times as a column of the library that `likeness` belongs to; unchanged if that library lacks columns.
#[pyfunction]
#[pyo3(name = "_like_times")]
pub(crate) fn like_times<'py>(
    likeness: &Bound<'py, PyAny>,
    times: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = times.py();
    let Some(framework) = Framework::of_object(likeness)? else { return Ok(times.clone()) };
    let Some(columns) = &framework.columns else { return Ok(times.clone()) };
    let function = py.import(framework.module)?.getattr((columns.function)(likeness)?)?;
    function.call1((times,)).or_else(|error| match is_refusal(py, &error) {
        true => Err(without_unit(framework.name, columns, times, error)?),
        false => Err(error),
    })
}

/// The refusal of times whose unit a framework lacks, with its exception as the cause. Other exceptions are passed on.
#[cold]
fn without_unit(
    name: &str,
    columns: &Columns,
    times: &Bound<'_, PyAny>,
    error: PyErr,
) -> PyResult<PyErr> {
    let py = times.py();
    let found: String =
        times.getattr(intern!(py, "dtype"))?.getattr(intern!(py, "name"))?.extract()?;
    let kind = found.split('[').next().unwrap_or_default();
    // No library has spans of days.
    let units = columns.units.iter().filter(|&&unit| unit != "D" || kind == "datetime64");
    let fitting: Vec<_> = units.map(|unit| format!("{kind}[{unit}]")).collect();
    if fitting.is_empty() || fitting.contains(&found) {
        return Ok(error);
    }
    let refusal = PyBufferError::new_err(format!(
        "{name} lacks columns of {found} and has those of {}; return times of one of these units, or an array of NumPy",
        fitting.join(", ")
    ));
    refusal.set_cause(py, Some(error));
    Ok(refusal)
}
