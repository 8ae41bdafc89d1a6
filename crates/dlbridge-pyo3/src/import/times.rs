//! The import of points and spans of time. The dtype of a NumPy array or the schema of an Arrow column has their unit.

use dlbridge::DataType;
use pyo3::prelude::*;

use super::{ImportRequest, hub, imported};
use crate::PyTensor;
use crate::error::{type_name, with_article};
use crate::frameworks::pandas;
use crate::import_options::ImportOptions;
use crate::imported::Imported;
use crate::numpy;
use crate::protocol::time::{Elements, Times};
use crate::protocol::{arrow, framework_checks, memory, type_info};

/// Imports times, with the object that keeps their memory; `None` for an object with other elements.
pub(crate) fn import<'py>(
    object: &Bound<'py, PyAny>,
    times: &Times,
) -> PyResult<Option<(Imported, Bound<'py, PyAny>)>> {
    let py = object.py();
    let type_info = type_info::of(object)?;
    framework_checks::check_before(object, &type_info.checks)?;
    let array = match type_info.borrowed.numpy_array {
        true => Some(object.clone()),
        false if !hub::IS_HUB => None,
        false => match pandas::times(object, type_info.checks.array_of().is_some())? {
            Some(pandas::Times::Array(array)) => Some(array),
            Some(pandas::Times::WithZone(zone)) => {
                times.set_found(format!(
                    "times with the zone {zone}; remove the zone first with x.tz_convert(None)"
                ));
                return Ok(None);
            }
            None => None,
        },
    };
    if let Some(array) = array {
        let array = plain(array)?;
        if !is_wanted(&array, times)? {
            return Ok(None);
        }
        let counts = array.call_method1(intern!(py, "view"), (intern!(py, "int64"),))?;
        let imported = ImportRequest::new(&counts, &ImportOptions::default()).required()?;
        return Ok(Some((as_times(imported)?, counts)));
    }
    let is_ours = PyTensor::of(object).is_some();
    if !hub::IS_HUB && !is_ours && (type_info.checks.is_column() || arrow::is_supported(object)?) {
        return Ok(hub::times(object, times)?.map(|imported| (imported, object.clone())));
    }
    // A tensor exports its counts as integers.
    if is_ours
        && let Some(found) = imported(object, &ImportOptions::default())?
        && found.tensor.dtype() == DataType::INT64
    {
        times.set_found(times.with_remedy(&Elements::Named("int64"), ""));
        return Ok(None);
    }
    if hub::IS_HUB && !is_ours && arrow::is_supported(object)? {
        let imported = arrow::import_times(object, &type_info, times)
            .map_err(|error| framework_checks::explained(object, &type_info.checks, error))?;
        return imported.map(|imported| Ok((as_times(imported)?, object.clone()))).transpose();
    }
    if let Some(found) = pandas::not_exported(object) {
        times.set_found(found);
        return Ok(None);
    }
    let name = with_article(&type_name(object));
    times.set_found(format!(
        "{name}, which is not an array or column with a unit of time; pass a NumPy array, or a column of pandas, polars \
         or pyarrow"
    ));
    Ok(None)
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

fn as_times(imported: Imported) -> PyResult<Imported> {
    Ok(Imported { tensor: memory::as_times(imported.tensor)?, ..imported })
}

/// Returns true if the dtype of an array is accepted; otherwise records it.
fn is_wanted(array: &Bound<'_, PyAny>, times: &Times) -> PyResult<bool> {
    let py = array.py();
    let dtype = array.getattr(intern!(py, "dtype"))?;
    let found: String = dtype.getattr(intern!(py, "name"))?.extract()?;
    let native = dtype.getattr(intern!(py, "isnative"))?.is_truthy()?;
    let found = Elements::Named(&found);
    if native && times.choose(found) {
        return Ok(true);
    }
    let order = if native { "" } else { " in the other byte order" };
    times.set_found(times.with_remedy(&found, order));
    Ok(false)
}
