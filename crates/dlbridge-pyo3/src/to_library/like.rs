//! A tensor as an object of the library that another object belongs to.

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use super::framework::{Columns, Framework};
use super::probe::is_refusal;
use super::to::to;
use crate::PyTensor;
use crate::error::type_name;
use crate::import_options::{ImportOptions, expect_bool};
use crate::protocol::exchange_api::Table;
use crate::protocol::{buffer, exchange_table};

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
    let tensor = PyTensor::import(obj, &options)?;
    if likeness.is_instance_of::<PyTensor>() {
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

/// A tensor as an object of the library that `likeness` belongs to; `None` if that is not known.
pub(crate) fn like_tensor<'py>(
    likeness: &Bound<'py, PyAny>,
    tensor: &Bound<'py, PyTensor>,
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
pub(crate) fn like_times<'py>(
    likeness: &Bound<'py, PyAny>,
    times: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = times.py();
    let Some(framework) = Framework::of_object(likeness)? else { return Ok(times) };
    let Some(columns) = &framework.columns else { return Ok(times) };
    let function = py.import(framework.module)?.getattr((columns.function)(likeness)?)?;
    function.call1((&times,)).or_else(|error| match is_refusal(py, &error) {
        true => Err(without_unit(framework.name, columns, &times, error)?),
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
