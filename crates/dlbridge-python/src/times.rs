//! The import of points and spans of time of a column, for the arguments of extensions.

use dlbridge::DataType;
use dlbridge_pyo3::import::times::{as_times, import_array};
use dlbridge_pyo3::imported::Imported;
use dlbridge_pyo3::protocol::time::{self, Elements, Times};
use dlbridge_pyo3::protocol::{framework_checks, type_info};
use pyo3::prelude::*;

use crate::arrow;
use crate::frameworks::explain::explained;
use crate::frameworks::pandas;
use crate::tensor::TensorObject;

/// The counts of the times of a column, and NumPy's name for them; or None, and the elements that were found instead. The
/// dtypes are those of an extension's argument; fill allows nulls, and casts says which units are converted.
#[pyfunction]
#[pyo3(name = "_times")]
pub(crate) fn times<'py>(
    obj: &Bound<'py, PyAny>,
    dtypes: Vec<String>,
    fill: bool,
    casts: Option<bool>,
) -> PyResult<(Option<Bound<'py, TensorObject>>, Option<String>)> {
    let names: Vec<_> = dtypes.iter().filter_map(|name| time::named(name)).collect();
    let times = Times::new(names, fill, casts);
    let imported = import(obj, &times);
    if let Some(found) = times.found() {
        return Ok((None, Some(found)));
    }
    match (imported?, times.chosen()) {
        (Some(imported), Some(chosen)) => {
            Ok((Some(TensorObject::new(obj.py(), imported)?), Some(chosen.found)))
        }
        _ => Ok((None, None)),
    }
}

/// Imports times; `None` for an object with other elements.
fn import(object: &Bound<'_, PyAny>, times: &Times) -> PyResult<Option<Imported>> {
    let type_info = type_info::of(object)?;
    framework_checks::check_before(object, &type_info.checks)?;
    match pandas::times(object, type_info.checks.array_of().is_some())? {
        Some(pandas::Times::Array(array)) => {
            return Ok(import_array(array, times)?.map(|(imported, _)| imported));
        }
        Some(pandas::Times::WithZone(zone)) => {
            times.set_found(format!(
                "times with the zone {zone}; remove the zone first with x.tz_convert(None)"
            ));
            return Ok(None);
        }
        None => {}
    }
    let ours = TensorObject::of(object);
    // A tensor exports its counts as integers.
    if ours.is_some_and(|ours| ours.get().tensor().dtype() == DataType::INT64) {
        times.set_found(times.with_remedy(&Elements::Named("int64"), ""));
        return Ok(None);
    }
    if ours.is_none() && arrow::is_supported(object)? {
        let imported = arrow::import_times(object, &type_info, times)
            .map_err(|error| explained(object, &type_info.checks, error))?;
        return imported.map(as_times).transpose();
    }
    if let Some(found) = pandas::not_exported(object) {
        times.set_found(found);
        return Ok(None);
    }
    times.set_no_column(object);
    Ok(None)
}
