//! The refusal of an object whose library failed to export it: the reason in the object's state, and what to do.

use std::ptr;

use dlbridge_pyo3::frameworks::{ImportRules, JAX, PADDLE, TORCH};
use dlbridge_pyo3::protocol::framework_checks::TypeChecks;
use dlbridge_pyo3::protocol::type_info;
use dlbridge_pyo3::python::copies;
use dlbridge_pyo3::python::error::{beyond_tensors, str_in_message};
use pyo3::exceptions::{
    PyBufferError, PyException, PyImportError, PyMemoryError, PyRecursionError, PyTypeError,
};
use pyo3::prelude::*;

use super::pandas::PANDAS;
use super::{advice, is_of};

/// The refusal of an object whose library failed, if the object's state gives the reason or the library's exception
/// does not say what to do. The library's exception is the cause.
pub(crate) fn explained(object: &Bound<'_, PyAny>, checks: &TypeChecks, error: PyErr) -> PyErr {
    let py = object.py();
    if copies::must_be_raised(py, &error) || error.is_instance_of::<PyRecursionError>(py) {
        return error;
    }
    // Also a column of a class that another package derives.
    let is_column = is_of(checks, &PANDAS);
    let refusal = match checks.rules.and_then(|rules| explain(object, rules)) {
        Some(refusal) => refusal,
        // The class that the standard specifies, with the library's message.
        None if (checks.raises_its_own || is_column) && !is_final(py, &error) => {
            PyBufferError::new_err(format!(
                "the producer cannot export the data: {}; convert it to a plain tensor first",
                first_sentence(py, &error)
            ))
        }
        None => return error,
    };
    refusal.set_cause(py, Some(error));
    refusal
}

/// Returns true if a producer's exception means that it cannot export its data, judged by the exception's class.
pub(crate) fn is_refusal(object: &Bound<'_, PyAny>, error: &PyErr) -> bool {
    let py = object.py();
    let of_library =
        || type_info::of(object).is_ok_and(|type_info| type_info.checks.raises_its_own);
    error.is_instance_of::<PyBufferError>(py)
        || (error.is_instance_of::<PyException>(py) && of_library() && !is_final(py, error))
}

/// Returns true for a library's exception that is passed on unchanged.
fn is_final(py: Python<'_>, error: &PyErr) -> bool {
    // This crate's own exceptions have exactly this class and do not come from Python code.
    let own_type_error =
        error.get_type(py).is(py.get_type::<PyTypeError>()) && error.traceback(py).is_none();
    own_type_error
        || error.is_instance_of::<PyBufferError>(py)
        || error.is_instance_of::<PyMemoryError>(py)
        || error.is_instance_of::<PyRecursionError>(py)
        || error.is_instance_of::<PyImportError>(py)
}

/// The first line of a library's message, for a sentence of our own.
pub(crate) fn first_sentence(py: Python<'_>, error: &PyErr) -> String {
    let text = str_in_message(error.value(py));
    text.lines().next().unwrap_or_default().trim_end_matches('.').to_owned()
}

/// The refusal of an object of a framework, if its state gives the reason.
fn explain(object: &Bound<'_, PyAny>, rules: &'static ImportRules) -> Option<PyErr> {
    let libraries = [(&PANDAS, "pandas"), (&TORCH, "torch"), (&JAX, "jax"), (&PADDLE, "paddle")];
    let (_, library) = libraries.into_iter().find(|(known, _)| ptr::eq(rules, *known))?;
    match advice(object.py(), "state", (object, library)) {
        Ok(reason) if library == "pandas" => reason.map(beyond_tensors),
        Ok(reason) => reason.map(PyBufferError::new_err),
        Err(error) => Some(error),
    }
}
