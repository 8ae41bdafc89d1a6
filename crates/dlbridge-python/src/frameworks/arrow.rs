//! The frameworks whose objects are imported through Arrow, except pandas.

use pyo3::exceptions::{PyBufferError, PyException};
use pyo3::prelude::*;

use dlbridge_pyo3::error::str_in_message;
use dlbridge_pyo3::frameworks::{ARROW_FIRST, ArrowRules, ImportRules, NO_RULES};
use dlbridge_pyo3::import_options::ImportOptions;

pub(super) static POLARS: ImportRules =
    ImportRules { packages: &["polars"], protocols: &ARROW_FIRST, ..NO_RULES };

pub(super) static PILLOW: ImportRules = ImportRules {
    class: Some(("PIL.Image", "Image")),
    arrow: Some(ArrowRules { check: check_arrow, explain: explain_arrow, nulls: None }),
    ..NO_RULES
};

/// Refuses an image whose pixels differ from its Arrow type: Pillow exports 16-bit unsigned integers as signed ones,
/// even in the other byte order.
fn check_arrow(object: &Bound<'_, PyAny>, options: &ImportOptions) -> PyResult<()> {
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
fn explain_arrow(object: &Bound<'_, PyAny>, options: &ImportOptions, error: PyErr) -> PyErr {
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
