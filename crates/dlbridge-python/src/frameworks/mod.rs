//! Facts about columns and images that their protocols do not report, and the advice for objects without a protocol.

pub(crate) mod explain;
pub(crate) mod pandas;

use std::ptr;

use dlbridge_pyo3::frameworks::{ARROW_FIRST, ImportRules, NO_RULES};
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::protocol::framework_checks::TypeChecks;
use dlbridge_pyo3::python::error::{str_in_message, type_name};
use pyo3::exceptions::{PyBufferError, PyException};
use pyo3::prelude::*;

/// The import rules of the frameworks of columns and images.
pub(crate) static IMPORT_RULES: [&ImportRules; 3] = [&POLARS, &pandas::PANDAS, &PILLOW];

/// The advice for an object without a protocol, such as a variable, or a tensor without values; `None` for unknown ones.
pub(crate) fn remedy(object: &Bound<'_, PyAny>) -> Option<String> {
    of_framework(object).or_else(|| by_conversion(object))
}

/// The advice for an object of a framework, also for one that lacks a selected protocol.
pub(crate) fn of_framework(object: &Bound<'_, PyAny>) -> Option<String> {
    let name = type_name(object);
    let remedy = match (name.split('.').next()?, name.rsplit('.').next()?) {
        ("dlbridge", "SharedTensor") => "pass its tensor: asdlpack(shared.tensor)",
        (_, "PRNGKeyArray") => "pass the integers of the keys: jax.random.key_data(keys)",
        ("tensorflow", class) if class.ends_with("Variable") => "pass its value: variable.value()",
        ("keras", "Variable") => "pass its value: variable.value",
        ("tensorflow", "SymbolicTensor") | ("keras", "KerasTensor") => {
            "it stands for elements that are not computed yet: convert it outside of the compiled function or \
             model, or in a function called by tf.py_function"
        }
        _ => return pandas::remedy(object),
    };
    Some(remedy.to_owned())
}

/// The advice for an object whose class converts it to an array, such as those of awkward, zarr, h5py and Dask.
fn by_conversion(object: &Bound<'_, PyAny>) -> Option<String> {
    let has = |method| object.get_type().hasattr(method).unwrap_or(false);
    let function = match (has("__array__"), has("__arrow_array__")) {
        (true, _) => "numpy.asarray(x)",
        (false, true) => "pyarrow.array(x)",
        (false, false) => return None,
    };
    Some(format!("let its library make an array of it: {function}"))
}

static POLARS: ImportRules =
    ImportRules { packages: &["polars"], protocols: &ARROW_FIRST, ..NO_RULES };

pub(crate) static PILLOW: ImportRules =
    ImportRules { class: Some(("PIL.Image", "Image")), ..NO_RULES };

/// Returns true for the checks of a type of a framework.
pub(crate) fn is_of(checks: &TypeChecks, rules: &ImportRules) -> bool {
    checks.rules.is_some_and(|found| ptr::eq(found, rules))
}

/// Refuses an image whose pixels differ from its Arrow type: Pillow exports 16-bit unsigned integers as signed ones,
/// even in the other byte order.
pub(crate) fn check_arrow(object: &Bound<'_, PyAny>, options: &ImportOptions) -> PyResult<()> {
    let mode = object.getattr(intern!(object.py(), "mode"))?;
    if mode.extract::<String>().is_ok_and(|mode| mode.starts_with("I;16")) {
        return Err(PyBufferError::new_err(format!(
            "Pillow exports the unsigned pixels of the mode {mode} to Arrow as signed integers; leave out \
             {}, and they are copied",
            arguments(options)
        )));
    }
    Ok(())
}

/// Converts an exception that Pillow raised instead of exporting an Arrow array to a refusal with that cause.
pub(crate) fn explain_arrow(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
    error: PyErr,
) -> PyErr {
    let py = object.py();
    if !error.is_instance_of::<PyException>(py) {
        return error;
    }
    let refusal = PyBufferError::new_err(format!(
        "Pillow cannot share the pixels of this image: {}; leave out {}, and they are copied",
        str_in_message(error.value(py)).trim_end_matches('.'),
        arguments(options)
    ));
    refusal.set_cause(py, Some(error));
    refusal
}

/// The arguments that forbid the copy.
fn arguments(options: &ImportOptions) -> &'static str {
    match options.copy {
        Some(false) => "protocol='arrow' and copy=False",
        _ => "protocol='arrow'",
    }
}
