//! Facts about columns and images that their protocols do not report, and the advice of the package's Python code.

pub(crate) mod explain;
pub(crate) mod pandas;

use std::ptr;

use dlbridge_pyo3::frameworks::{ARROW_FIRST, ImportRules, NO_RULES};
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::protocol::framework_checks::TypeChecks;
use dlbridge_pyo3::python::copies::must_be_raised;
use dlbridge_pyo3::python::error::str_in_message;
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyBufferError, PyException};
use pyo3::prelude::*;

/// The import rules of the frameworks of columns and images.
pub(crate) static IMPORT_RULES: [&ImportRules; 3] = [&POLARS, &pandas::PANDAS, &PILLOW];

/// Calls a function of the package's Python code.
pub(crate) fn call<'py>(
    py: Python<'py>,
    module: &str,
    function: &str,
    arguments: impl PyCallArgs<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    py.import(format!("dlbridge.{module}"))?.getattr(function)?.call1(arguments)
}

/// The text that a function of `dlbridge._advice` returns; `None` if it returns none, or if the object it asks fails.
///
/// # Errors
/// Exceptions that end the program.
pub(crate) fn advice<'py>(
    py: Python<'py>,
    function: &str,
    arguments: impl PyCallArgs<'py>,
) -> PyResult<Option<String>> {
    match call(py, "_advice", function, arguments).and_then(|text| text.extract()) {
        Err(error) if !must_be_raised(py, &error) => Ok(None),
        text => text,
    }
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
pub(crate) fn explain_arrow(py: Python<'_>, options: &ImportOptions, error: PyErr) -> PyErr {
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
