//! A tensor as an object of the library that another object belongs to.

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use super::names::framework_of;
use super::to::to;
use crate::PyTensor;
use crate::classes::is_instance;
use crate::error::type_name;
use crate::import_options::{ImportOptions, expect_bool};
use crate::protocol::exchange_api::Table;
use crate::protocol::{buffer_abi, exchange_table};

/// Make an object of the library that `likeness` belongs to, from anything that `asdlpack` takes.
///
/// What bytes, bytearray, array.array and mmap get is a memoryview.
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
    // What was copied on the way in needs no copy on the way out.
    let made = like_tensor(likeness, &tensor, copy.filter(|&copy| !copy))?;
    made.ok_or_else(|| {
        PyTypeError::new_err(format!(
            "{} belongs to no library that is known here; use asdlpack(obj), and what that library \
             makes tensors with; or asdlpack(obj).numpy(), which most take",
            type_name(likeness)
        ))
    })
}

/// An array of times as a column of the library that `likeness` belongs to, or as it is if that is not one with columns.
pub(crate) fn like_times<'py>(
    likeness: &Bound<'py, PyAny>,
    times: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = times.py();
    let constructor = match framework_of(likeness)?.map(|framework| framework.name) {
        Some("pandas") if is_instance(likeness, intern!(py, "pandas"), intern!(py, "Index"))? => {
            ("pandas", "Index")
        }
        Some("pandas") => ("pandas", "Series"),
        Some("polars") => ("polars", "Series"),
        Some("pyarrow") => ("pyarrow", "array"),
        _ => return Ok(times),
    };
    py.import(constructor.0)?.getattr(constructor.1)?.call1((times,))
}

/// A tensor as an object of the library that `likeness` belongs to; `None` if that is not known.
pub(crate) fn like_tensor<'py>(
    likeness: &Bound<'py, PyAny>,
    tensor: &Bound<'py, PyTensor>,
    copy: Option<bool>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = likeness.py();
    if let Some(framework) = framework_of(likeness)? {
        return to(tensor, framework, copy).map(Some);
    }
    if let Some(table) = Table::of_type(&likeness.get_type())? {
        tensor.get().in_default_order(py)?;
        return exchange_table::export(py, table, tensor.get()).map(Some);
    }
    if buffer_abi::check(likeness) {
        if !buffer_abi::EXPORTS {
            return Err(PyBufferError::new_err(buffer_abi::NO_EXPORT));
        }
        return Ok(Some(PyMemoryView::from(tensor.as_any())?.into_any()));
    }
    Ok(None)
}
