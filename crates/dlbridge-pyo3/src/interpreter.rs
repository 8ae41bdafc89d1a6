//! Which interpreter is running, and how to reach it from any thread.

use std::mem;

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit, Python, ffi};

use crate::pending::keeping_pending;

/// Whether this is the main interpreter. What Python owns is released from any thread, which Python
/// offers for the main interpreter alone: in a subinterpreter it would wait for ever.
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

/// Refuses to keep an object of a subinterpreter.
pub(crate) fn check_main_interpreter(py: Python<'_>) -> PyResult<()> {
    if is_main_interpreter(py) {
        return Ok(());
    }
    Err(PyBufferError::new_err(
        "memory cannot be imported in a subinterpreter, where it could not be released from any \
         thread; import it in the main interpreter",
    ))
}

/// Calls `release` attached, on whatever thread this is, and keeps a pending exception. When the
/// interpreter is gone, or going, there is nobody to give anything back to, and it is not called.
pub(crate) fn while_it_lives(release: impl FnOnce(Python<'_>)) {
    // SAFETY: may be asked at any time.
    if unsafe { ffi::Py_IsInitialized() } == 0 {
        return;
    }
    // A deleter may be called by code that let the GIL go below a Rust function that has it, so only
    // Python itself can tell whether this thread has it now.
    // SAFETY: the interpreter is there.
    let state = unsafe { ffi::PyGILState_Ensure() };
    // SAFETY: just attached.
    let py = unsafe { Python::assume_attached() };
    keeping_pending(py, || release(py));
    // SAFETY: what `PyGILState_Ensure` returned, in the same thread.
    unsafe { ffi::PyGILState_Release(state) };
}

/// A Python object that keeps memory alive, as the owner of a tensor: released on any thread.
pub(crate) struct PyOwner(Option<Py<PyAny>>);

impl PyOwner {
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        check_main_interpreter(object.py())?;
        Ok(Self(Some(object.clone().unbind())))
    }

    /// A second handle on the object; `None` while this one is dropped.
    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Option<Self> {
        self.0.as_ref().map(|object| Self(Some(object.clone_ref(py))))
    }

    /// Shows the object to Python's garbage collector.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }
}

impl Drop for PyOwner {
    fn drop(&mut self) {
        let mut object = self.0.take();
        while_it_lives(|py| drop(object.take().map(|object| object.into_bound(py))));
        // Without an interpreter there is no reference to give back.
        mem::forget(object);
    }
}
