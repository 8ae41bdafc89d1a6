//! The arrays that the methods of an object export.

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::abi::{ArrowArray, ArrowArrayStream, ArrowDeviceArray, ArrowSchema, Owned};
use crate::frameworks::pandas;
use dlbridge_pyo3::classes::attribute;
use dlbridge_pyo3::error::repr_in_message;
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::interpreter::check_main_interpreter;
use dlbridge_pyo3::protocol::TypeInfo;

/// The arrays that an object exports.
pub(super) enum Exported {
    Array(Owned<ArrowSchema>, Owned<ArrowArray>),
    Stream(Owned<ArrowArrayStream>),
}

/// Calls the first method of Arrow that an object has; `None` for an object without one.
pub(super) fn exported(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Option<Exported>> {
    let py = object.py();
    let rules = type_info.checks.arrow();
    if let Some(rules) = rules {
        (rules.check)(object, options)?;
    }
    // Columns have only the stream, and look up the other methods in Python code.
    let first = if type_info.checks.is_column() { stream(object)? } else { None };
    let exported = if let Some(stream) = first {
        Exported::Stream(stream)
    } else if let Some(method) = attribute(object, intern!(py, "__arrow_c_array__"))? {
        let answer = method.call0().map_err(|error| match rules {
            Some(rules) => (rules.explain)(object, options, error),
            None => error,
        })?;
        let (schema, array) = pair(&answer)?;
        Exported::Array(schema, Owned::take(&array)?)
    } else if let Some(method) = attribute(object, intern!(py, "__arrow_c_device_array__"))? {
        let (schema, array) = pair(&method.call0()?)?;
        Exported::Array(schema, Owned::<ArrowDeviceArray>::take(&array)?.on_cpu()?)
    } else if let Some(stream) = stream(object)? {
        Exported::Stream(stream)
    } else {
        return Ok(None);
    };
    check_main_interpreter(py)?;
    options.check_on_cpu("an Arrow array")?;
    Ok(Some(exported))
}

/// The stream that an object exports, also if it exports arrays too; `None` for an object without a stream.
pub(super) fn only_stream(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Option<Owned<ArrowArrayStream>>> {
    if let Some(rules) = type_info.checks.arrow() {
        (rules.check)(object, options)?;
    }
    let stream = stream(object)?;
    check_main_interpreter(object.py())?;
    Ok(stream)
}

fn stream(object: &Bound<'_, PyAny>) -> PyResult<Option<Owned<ArrowArrayStream>>> {
    let Some(method) = attribute(object, intern!(object.py(), "__arrow_c_stream__"))? else {
        return Ok(None);
    };
    let stream = method.call0().map_err(|error| pandas::without_pyarrow(object, error))?;
    Owned::take(&stream).map(Some)
}

/// The schema and the other capsule that a method returned.
fn pair<'py>(answer: &Bound<'py, PyAny>) -> PyResult<(Owned<ArrowSchema>, Bound<'py, PyAny>)> {
    let wrong = || {
        PyBufferError::new_err(format!(
            "expected a tuple of two capsules, not {}",
            repr_in_message(answer)
        ))
    };
    let pair = answer.cast::<PyTuple>().map_err(|_| wrong())?;
    let (schema, array) = pair.extract::<(Bound<'_, PyAny>, _)>().map_err(|_| wrong())?;
    Ok((Owned::take(&schema)?, array))
}
