//! The refusal of an object whose library failed to export it: the reason in the object's state, and what to do.

use std::ptr;

use dlbridge_pyo3::frameworks::{ImportRules, JAX, PADDLE, TORCH};
use dlbridge_pyo3::protocol::framework_checks::TypeChecks;
use dlbridge_pyo3::protocol::type_info;
use dlbridge_pyo3::python::copies;
use dlbridge_pyo3::python::error::str_in_message;
use dlbridge_pyo3::python::objects::is_instance;
use pyo3::exceptions::{
    PyBufferError, PyException, PyImportError, PyMemoryError, PyRecursionError, PyTypeError,
};
use pyo3::prelude::*;

use super::is_of;
use super::pandas::{self, PANDAS};

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
    let is = |known| ptr::eq(rules, known);
    if is(&PANDAS) {
        return pandas::refusal(object);
    }
    let reason = if is(&TORCH) {
        not_strided(object)
    } else if is(&JAX) {
        gone(object)
    } else if is(&PADDLE) {
        sparse(object)
    } else {
        None
    };
    reason.map(PyBufferError::new_err)
}

/// Tensors without strided memory: the attribute that reports the state, and the message.
const NOT_STRIDED: [(&str, &str); 4] = [
    (
        "is_nested",
        "the tensor is nested: its rows have different lengths; call to_padded_tensor(padding) first",
    ),
    ("is_meta", "the tensor is on the device meta, which holds no data; make it on another device"),
    (
        "is_quantized",
        "the tensor is quantised: its values are not what is in memory; call dequantize() or int_repr() first",
    ),
    (
        "layout",
        "the tensor is sparse or has another layout than torch.strided; call to_dense() first",
    ),
];

/// Returns why a tensor does not have strided memory, or `None` if no reason is found.
fn not_strided(object: &Bound<'_, PyAny>) -> Option<&'static str> {
    let applies = |name: &str| -> PyResult<bool> {
        let found = object.getattr(name)?;
        match name {
            "layout" => Ok(found.str()?.to_cow()? != "torch.strided"),
            _ => found.is_truthy(),
        }
    };
    let found = NOT_STRIDED.iter().find(|(name, _)| applies(name).unwrap_or(false));
    if let Some((_, reason)) = found {
        return Some(reason);
    }
    let asked = |name: &str| object.call_method0(name).and_then(|answer| answer.extract::<u64>());
    (asked("data_ptr").ok()? == 0 && asked("numel").ok()? > 0).then_some(
        "the tensor has elements but no memory, as a FakeTensor, a MaskedTensor and a tensor with a \
         resized storage have; make a tensor that holds its data first",
    )
}

/// Returns why an array lacks elements in memory, or `None` if no reason is found.
fn gone(object: &Bound<'_, PyAny>) -> Option<&'static str> {
    let py = object.py();
    if is_instance(object, "jax.core", "Tracer").ok()? {
        return Some(
            "the array is a tracer of JAX, which stands for elements that are not computed yet; convert \
             it outside of the transformed function, or in a function called by jax.pure_callback",
        );
    }
    let is_deleted =
        object.call_method0(intern!(py, "is_deleted")).and_then(|deleted| deleted.is_truthy());
    is_deleted.unwrap_or(false).then_some(
        "the array was deleted, or donated to a compiled function, so its memory is gone; convert \
         it before that, or make a new one",
    )
}

/// Returns why a tensor is not in one piece of memory, or `None` if no reason is found.
fn sparse(object: &Bound<'_, PyAny>) -> Option<&'static str> {
    let is_sparse = object.call_method0("is_sparse").and_then(|sparse| sparse.is_truthy());
    is_sparse.unwrap_or(false).then_some(
        "the tensor is sparse: its values are not in one piece of memory; call to_dense() first",
    )
}
