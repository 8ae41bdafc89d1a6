//! Errors of the core as Python exceptions, and what messages call an object.

use dlbridge::Error;
use pyo3::exceptions::{PyBufferError, PyMemoryError};
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

/// The exception classes. PyO3 tells the name of the argument in a note behind the message; here it
/// comes first, where it is read.
const CLASSES: &std::ffi::CStr = cr#"
class _Argument:
    def add_note(self, note):
        head, _, name = note.partition("while processing ")
        if head or self.argument is not None:
            super().add_note(note)
            return
        self.argument = name.strip("'")
        self.args = (f"argument {name}: {self.args[0]}",)

    argument = None


class TensorMismatchError(_Argument, TypeError):
    """A tensor is another one than a function takes."""

    __module__ = "dlbridge"


class TensorBorrowError(_Argument, BufferError):
    """The memory of a tensor is borrowed by somebody else."""

    __module__ = "dlbridge"
"#;

impl ArgumentError {
    pub(crate) fn new_err(self, py: Python<'_>, text: &str) -> PyErr {
        static MISMATCH: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        static BORROWED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let (class, name) = match self {
            Self::Mismatch => (&MISMATCH, "TensorMismatchError"),
            Self::Borrowed => (&BORROWED, "TensorBorrowError"),
        };
        let class = class.get_or_try_init(py, || -> PyResult<_> {
            let module = PyModule::from_code(py, CLASSES, c"dlbridge", c"dlbridge._arguments")?;
            Ok(module.getattr(name)?.cast_into::<PyType>()?.unbind())
        });
        match class {
            Ok(class) => PyErr::from_type(class.bind(py).clone(), (text.to_owned(),)),
            Err(error) => error,
        }
    }
}
