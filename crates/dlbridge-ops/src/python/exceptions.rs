//! Exceptions of Python for errors.

use pyo3::exceptions::{PyBufferError, PyImportError, PyRuntimeError, PyTypeError, PyValueError};
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

/// The same exception with a place in front of its message.
pub(super) fn placed(py: Python<'_>, place: &str, error: PyErr) -> PyErr {
    let message = format!("{place}: {}", error.value(py));
    let placed =
        error.get_type(py).call1((message,)).map(|value| PyErr::from_value(value.into_any()));
    placed.unwrap_or(error)
}
