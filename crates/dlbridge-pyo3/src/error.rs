//! Errors of the core as Python exceptions, and what messages call an object.

use dlbridge::Error;
use pyo3::PyErrArguments;
use pyo3::exceptions::{PyBufferError, PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::process::once;

/// The exception for an error of the core, where no `?` makes it.
pub(crate) fn to_py_err(error: Error) -> PyErr {
    error.into()
}

/// The name of an object's type, with its module if that has a name.
pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    name_of(&object.get_type())
}

/// The name of a type, with its module if that has a name.
pub(crate) fn name_of(object_type: &Bound<'_, PyType>) -> String {
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
        self.new_err_of(py, text.to_owned())
    }

    /// The same with arguments that are made when Python makes the exception.
    pub(crate) fn new_err_of(
        self,
        py: Python<'_>,
        arguments: impl PyErrArguments + 'static,
    ) -> PyErr {
        match (self.class(py), self) {
            (Ok(Some(class)), _) => PyErr::from_type(class.bind(py).clone(), arguments),
            (Ok(None), Self::Mismatch) => PyTypeError::new_err(arguments),
            (Ok(None), Self::Borrowed) => PyBufferError::new_err(arguments),
            (Err(error), _) => error,
        }
    }

    /// Returns true for an exception of the class of the package `dlbridge`.
    pub(crate) fn is(self, py: Python<'_>, error: &PyErr) -> bool {
        self.class(py)
            .is_ok_and(|class| class.is_some_and(|class| error.is_instance(py, class.bind(py))))
    }

    /// The class of the package `dlbridge`; `None` without that package.
    fn class(self, py: Python<'_>) -> PyResult<Option<&'static Py<PyType>>> {
        static MISMATCH: PyOnceLock<Option<Py<PyType>>> = PyOnceLock::new();
        static BORROWED: PyOnceLock<Option<Py<PyType>>> = PyOnceLock::new();
        let (class, name) = match self {
            Self::Mismatch => (&MISMATCH, "TensorMismatchError"),
            Self::Borrowed => (&BORROWED, "TensorBorrowError"),
        };
        let found = once(class, py, || {
            let class = py.import("dlbridge._errors").and_then(|module| module.getattr(name));
            match class.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
                Ok(class) => Ok(Some(class.unbind())),
                // The package is not there.
                Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
                Err(error) => Err(error),
            }
        });
        Ok(found?.as_ref())
    }
}
