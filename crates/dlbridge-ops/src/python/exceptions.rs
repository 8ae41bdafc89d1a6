//! Exceptions of Python for errors.

use pyo3::exceptions::{
    PyBufferError, PyImportError, PyMemoryError, PyOverflowError, PyRuntimeError, PyTypeError,
    PyUnicodeError, PyValueError,
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
        ErrorKind::Memory => PyMemoryError::new_err(message),
        ErrorKind::Missing => PyImportError::new_err(message),
        ErrorKind::Failed | ErrorKind::Panic => PyRuntimeError::new_err(message),
    }
}

/// The same exception with a place in front of its message, if it has only a message. Others, such as a class of the
/// caller's, pass unchanged, because only their authors know how they show themselves.
pub(super) fn placed(py: Python<'_>, place: &str, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyUnicodeError>(py) {
        let placed = PyValueError::new_err(format!("{place}: {}", error.value(py)));
        placed.set_cause(py, Some(error));
        return placed;
    }
    let is_known = error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyBufferError>(py)
        || error.is_instance_of::<PyOverflowError>(py);
    let value = error.value(py);
    let message = value.getattr("args").and_then(|arguments| arguments.extract::<(String,)>());
    if let Ok((message,)) = message
        && is_known
        && value.to_string() == message
    {
        // The same object, which may have attributes: typed arguments raise classes of their own beside the package.
        let _ = value.setattr("args", (format!("{place}: {message}"),));
    }
    error
}
