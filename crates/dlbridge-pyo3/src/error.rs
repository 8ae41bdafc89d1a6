//! Errors of the core as Python exceptions.

use dlbridge::Error;
use pyo3::PyErr;
use pyo3::exceptions::{PyBufferError, PyMemoryError};

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
