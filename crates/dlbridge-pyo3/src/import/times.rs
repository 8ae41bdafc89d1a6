//! The import of points and spans of time. The dtype of a NumPy array has their unit; the package imports columns.

use dlbridge::{DataType, Datetime64, Element, Seconds};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::{has, hub};
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::numpy;
use crate::protocol::time::{self, Elements, Times};
use crate::protocol::type_info;

/// Imports times, with the object that keeps their memory; `None` for an object with other elements.
pub(crate) fn import<'py>(
    object: &Bound<'py, PyAny>,
    times: &Times,
) -> PyResult<Option<(Imported, Bound<'py, PyAny>)>> {
    let type_info = type_info::of(object)?;
    type_info.check_before(object)?;
    if type_info.borrowed.numpy_array {
        return import_array(object.clone(), times);
    }
    if type_info.checks.is_column() || has(object, Protocol::Arrow)? {
        return Ok(hub::times(object, times)?.map(|imported| (imported, object.clone())));
    }
    times.set_no_column(object);
    Ok(None)
}

/// Imports the times of a NumPy array.
pub fn import_array<'py>(
    array: Bound<'py, PyAny>,
    times: &Times,
) -> PyResult<Option<(Imported, Bound<'py, PyAny>)>> {
    let py = array.py();
    let array = plain(array)?;
    let dtype = array.getattr(intern!(py, "dtype"))?;
    let found: String = dtype.getattr(intern!(py, "name"))?.extract()?;
    let native = dtype.getattr(intern!(py, "isnative"))?.is_truthy()?;
    let found = Elements::Named(&found);
    if !native || !times.choose(found) {
        let order = if native { "" } else { " in the other byte order" };
        times.set_found(times.with_remedy(&found, order));
        return Ok(None);
    }
    let counts = array.call_method1(intern!(py, "view"), (intern!(py, "int64"),))?;
    let type_info = type_info::of(&counts)?;
    let imported = super::required(&counts, &type_info, &ImportOptions::default())?;
    Ok(Some((as_times(imported)?, counts)))
}

/// The array as one of exactly NumPy's class: a subclass may override `dtype` and `view`.
fn plain(array: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let py = array.py();
    if type_info::of(&array)?.head.is_some() {
        return Ok(array);
    }
    match numpy::api::class(py)? {
        Some(class) => class.call_method1(intern!(py, "view"), (&array, &class)),
        None => Ok(array),
    }
}

/// 64-bit integers as counts of a unit of time.
pub fn as_times(imported: Imported) -> PyResult<Imported> {
    let dtype = imported.tensor.dtype();
    if dtype != DataType::INT64 {
        let refusal = format!("times must be counted by int64, not by {dtype}");
        return Err(PyBufferError::new_err(refusal));
    }
    let tensor = time::relabelled(imported.tensor, Datetime64::<Seconds>::DATA_TYPE)?;
    Ok(Imported { tensor, ..imported })
}
