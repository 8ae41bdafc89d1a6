//! pandas: columns, indices and tables.
//!
//! A column whose values NumPy holds is imported as the array that `to_numpy()` returns: Arrow would export NaN as
//! null, pack booleans to bits, copy strided values and convert objects.

use dlbridge::CopyReason;
use pyo3::exceptions::{PyBufferError, PyImportError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use dlbridge_pyo3::frameworks::{ARROW_FIRST, ImportRules, NO_RULES};
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::protocol::type_info;
use dlbridge_pyo3::python::error::{type_name, with_article};
use dlbridge_pyo3::python::objects::has_one_reference;
use dlbridge_pyo3::python::objects::once;
use dlbridge_pyo3::python::objects::{attribute, is_instance, loaded_class};

pub(crate) static PANDAS: ImportRules = ImportRules {
    packages: &["pandas"],
    class: Some(("pandas", "Series")),
    protocols: &ARROW_FIRST,
    ..NO_RULES
};

/// The NumPy array that holds the values of a `pandas.Series`, and why it is a copy if it is one; `None` for a column
/// whose dtype is not NumPy's.
pub(crate) fn array_of<'py>(
    series: &Bound<'py, PyAny>,
    options: &ImportOptions,
) -> PyResult<Option<(Bound<'py, PyAny>, Option<CopyReason>)>> {
    if !has_numpy_dtype(series)? {
        return Ok(None);
    }
    let py = series.py();
    let Some(method) = attribute(series, intern!(py, "to_numpy"))? else { return Ok(None) };
    let array = method.call0()?;
    if !type_info::of(&array)?.borrowed.numpy_array {
        return Err(PyBufferError::new_err(format!(
            "to_numpy() of the column, a {}, returned an object of type {}, not an array of NumPy; pass numpy.asarray(s)",
            type_name(series),
            type_name(&array)
        )));
    }
    // An array that owns its elements and has a single reference was made for this call.
    // SAFETY: the thread is attached, and `array` is a live object.
    let only_here = unsafe { has_one_reference(py, array.as_ptr()) };
    let owns = array.getattr(intern!(py, "flags"))?.getattr(intern!(py, "owndata"))?.is_truthy()?;
    let reason = (only_here && owns).then_some(CopyReason::Producer);
    if reason.is_some() && options.copy == Some(false) {
        return Err(PyBufferError::new_err(
            "pandas copies this column to make a NumPy array, and copy=False forbids that; leave out copy=False",
        ));
    }
    Ok(Some((array, reason)))
}

/// Returns true if an object's dtype is NumPy's, and not a pandas extension type.
fn has_numpy_dtype(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    match object.getattr_opt(intern!(py, "dtype"))? {
        Some(dtype) => is_of_numpy(&dtype),
        None => Ok(false),
    }
}

/// Returns true for a NumPy dtype.
fn is_of_numpy(dtype: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = dtype.py();
    if let Some(class) = CLASS.get(py) {
        return dtype.is_instance(class.bind(py));
    }
    let Some(class) = loaded_class(py, "numpy", "dtype")? else {
        return Ok(false);
    };
    let class = once(&CLASS, py, || Ok::<_, PyErr>(class.unbind()))?;
    dtype.is_instance(class.bind(py))
}

/// The error of a column or table whose export failed because pyarrow cannot be imported, with pandas's exception as
/// the cause. Other exceptions are passed on.
#[cold]
pub(crate) fn without_pyarrow(object: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = object.py();
    let is = |class| is_instance(object, "pandas", class).unwrap_or(false);
    if !error.is_instance_of::<PyImportError>(py) || !(is("Series") || is("DataFrame")) {
        return error;
    }
    let refusal = PyImportError::new_err(format!(
        "pandas exports {} through pyarrow, which cannot be imported; install pyarrow, or pass x.to_numpy()",
        with_article(&type_name(object))
    ));
    refusal.set_cause(py, Some(error));
    refusal
}

/// The NumPy array with the times of a column or an index, or the time zone of an index; `None` for one that must be imported
/// itself, and for other objects.
pub(crate) fn times<'py>(
    object: &Bound<'py, PyAny>,
    is_column: bool,
) -> PyResult<Option<Result<Bound<'py, PyAny>, Bound<'py, PyAny>>>> {
    let py = object.py();
    let is_index = is_instance(object, "pandas", "Index")?;
    if (is_index || is_column) && has_numpy_dtype(object)? {
        return object.call_method0(intern!(py, "to_numpy")).map(Ok).map(Some);
    }
    let zone = if is_index { object.getattr_opt(intern!(py, "tz"))? } else { None };
    Ok(zone.filter(|zone| !zone.is_none()).map(Err))
}
