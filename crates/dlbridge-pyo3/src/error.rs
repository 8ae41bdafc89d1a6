//! Errors of the core as Python exceptions, and what messages call an object.

use dlbridge::Error;
use pyo3::exceptions::{PyBufferError, PyMemoryError};
use pyo3::prelude::*;

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
