//! Errors of the core as Python exceptions, and what messages call an object.

use dlbridge::Error;
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// The exception for an error of the core: `BufferError`, or `MemoryError` where memory ran out.
///
/// ```no_run
/// use dlbridge_pyo3::{import, to_py_err};
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn first(x: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
///     let tensor = import(x)?;
///     Ok(tensor.view::<f64>().map_err(to_py_err)?.iter().next().copied())
/// }
/// ```
pub fn to_py_err(error: Error) -> PyErr {
    match error {
        Error::OutOfMemory { .. } => PyMemoryError::new_err(error.to_string()),
        _ => PyBufferError::new_err(error.to_string()),
    }
}

/// The name of an object's type, with its module if that has a name.
pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    let object_type = object.get_type();
    let name = object_type.fully_qualified_name().or_else(|_| object_type.name());
    name.map_or_else(|_| "an unnamed type".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// What is wrong with an argument of a function in Rust.
#[derive(Clone, Copy)]
pub(crate) enum ArgumentError {
    /// A `TypeError`: it is another tensor than was asked for.
    Mismatch,
    /// A `BufferError`: its memory is borrowed by somebody else.
    Borrowed,
}

impl ArgumentError {
    /// The exception, of a class of the package `dlbridge`, which puts the name of the argument in front of
    /// the text; without that package it is the base class.
    pub(crate) fn new_err(self, py: Python<'_>, text: &str) -> PyErr {
        static MISMATCH: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        static BORROWED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let (class, name) = match self {
            Self::Mismatch => (&MISMATCH, "TensorMismatchError"),
            Self::Borrowed => (&BORROWED, "TensorBorrowError"),
        };
        let text = text.to_owned();
        match class.import(py, "dlbridge._errors", name) {
            Ok(class) => PyErr::from_type(class.clone(), (text,)),
            Err(_) => match self {
                Self::Mismatch => PyTypeError::new_err(text),
                Self::Borrowed => PyBufferError::new_err(text),
            },
        }
    }
}
