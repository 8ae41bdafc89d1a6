//! The checks of an import that no protocol makes: states in which a tensor's bytes are not its values, or that make
//! autograd miss writes. `frameworks/` states the facts, `type_checks.rs` finds those of a type, and this file
//! applies them.

use dlbridge::DataType;
use pyo3::exceptions::{
    PyBufferError, PyException, PyImportError, PyMemoryError, PyRecursionError, PyTypeError,
};
use pyo3::prelude::*;

use super::cached_attr::CachedAttr;
use super::type_checks::TypeChecks;
use super::type_info;
use crate::copies;
use crate::error::str_in_message;
use crate::frameworks::State;

/// Refuses an object in a state that its bytes do not show. `dtype` is the dtype of its tensor, because most states
/// belong to some dtypes only.
#[inline]
pub fn check(object: &Bound<'_, PyAny>, checks: &TypeChecks, dtype: DataType) -> PyResult<()> {
    if checks.states.is_empty() { Ok(()) } else { check_states(object, &checks.states, dtype) }
}

fn check_states(
    object: &Bound<'_, PyAny>,
    states: &[(CachedAttr, &State)],
    dtype: DataType,
) -> PyResult<()> {
    for (attr, state) in states {
        if state.dtypes.contain(dtype) && attr.is_true(object)? == state.refused {
            return Err(PyBufferError::new_err(state.reason));
        }
    }
    Ok(())
}

/// Refuses an object for states that must be checked before an import through any protocol.
pub fn check_before(object: &Bound<'_, PyAny>, checks: &TypeChecks) -> PyResult<()> {
    copies::forget_interrupt();
    if let Some(rules) = checks.rules
        && let Some(check) = rules.check_before
    {
        check(object)?;
    }
    if checks.is_memoryview {
        let exporter = object.getattr(intern!(object.py(), "obj"))?;
        if let Some(rules) = type_info::of(&exporter)?.checks.rules
            && let Some(check) = rules.check_before
        {
            check(&exporter)?;
        }
    }
    Ok(())
}

/// The refusal of an object whose library failed, if the object's state gives the reason or the library's exception
/// does not say what to do. The library's exception is the cause.
pub fn explained(object: &Bound<'_, PyAny>, checks: &TypeChecks, error: PyErr) -> PyErr {
    let py = object.py();
    let is_final =
        copies::must_be_raised(py, &error) || error.is_instance_of::<PyRecursionError>(py);
    if is_final {
        return error;
    }
    let refusal = match checks.rules.and_then(|rules| rules.explain) {
        Some(explain) => explain(object),
        None if checks.raises_its_own => None,
        None => return error,
    };
    let Some(refusal) = refusal else { return of_standard(py, error) };
    refusal.set_cause(py, Some(error));
    refusal
}

/// Returns true if a producer's exception means that it cannot export its data, judged by the exception's class.
pub fn is_refusal(object: &Bound<'_, PyAny>, error: &PyErr) -> bool {
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

/// Converts the refusal of a library to the class that the standard specifies, with the library's message.
fn of_standard(py: Python<'_>, error: PyErr) -> PyErr {
    if is_final(py, &error) {
        return error;
    }
    let text = str_in_message(error.value(py));
    let sentence = text.lines().next().unwrap_or_default().trim_end_matches('.');
    let refusal = PyBufferError::new_err(format!(
        "the producer cannot export the data: {sentence}; convert it to a plain tensor first"
    ));
    refusal.set_cause(py, Some(error));
    refusal
}
