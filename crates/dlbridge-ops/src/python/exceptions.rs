//! Exceptions of Python for errors.

use pyo3::exceptions::{
    PyBufferError, PyImportError, PyOverflowError, PyRuntimeError, PyTypeError, PyUnicodeError,
    PyValueError,
};
use pyo3::prelude::*;

use crate::error::{Error, ErrorKind};

/// The exception for an error.
pub(super) fn exception(error: &Error) -> PyErr {
    let message = error.to_string();
    match error.kind() {
        ErrorKind::Type => PyTypeError::new_err(message),
        ErrorKind::Value => PyValueError::new_err(message),
        ErrorKind::Buffer => PyBufferError::new_err(message),
        ErrorKind::Missing => PyImportError::new_err(message),
        ErrorKind::Failed | ErrorKind::Panic => PyRuntimeError::new_err(message),
    }
}

/// The same exception with a place in front of its message, if it is of a class that typed arguments raise. Others, such
/// as a class of the caller's, pass unchanged, because only their authors know how to make them.
pub(super) fn placed(py: Python<'_>, place: &str, error: PyErr) -> PyErr {
    let message = || format!("{place}: {}", error.value(py));
    let class = error.get_type(py);
    let placed = if class.is(py.get_type::<PyTypeError>()) {
        PyTypeError::new_err(message())
    } else if class.is(py.get_type::<PyValueError>())
        || class.is_subclass_of::<PyUnicodeError>().unwrap_or(false)
    {
        PyValueError::new_err(message())
    } else if class.is(py.get_type::<PyBufferError>()) {
        PyBufferError::new_err(message())
    } else if class.is(py.get_type::<PyOverflowError>()) {
        PyOverflowError::new_err(message())
    } else {
        return error;
    };
    placed.set_cause(py, error.cause(py));
    placed
}
