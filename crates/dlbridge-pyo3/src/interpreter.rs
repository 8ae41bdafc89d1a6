//! Which interpreter is running.

use pyo3::{Python, ffi};

/// Whether this is the main interpreter. A buffer is released from any thread, which Python offers
/// for the main interpreter alone: in a subinterpreter it would wait for ever.
///
/// Extensions call it when their module is imported, and refuse the import if it says no.
///
/// ```no_run
/// use pyo3::exceptions::PyImportError;
/// use pyo3::prelude::*;
///
/// #[pymodule]
/// fn extension(module: &Bound<'_, PyModule>) -> PyResult<()> {
///     match dlbridge_pyo3::is_main_interpreter(module.py()) {
///         true => Ok(()),
///         false => Err(PyImportError::new_err("extension does not support subinterpreters")),
///     }
/// }
/// ```
pub fn is_main_interpreter(_py: Python<'_>) -> bool {
    // SAFETY: attached, as `_py` shows, so there is a current interpreter.
    unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) == 0 }
}
