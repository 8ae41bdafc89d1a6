//! Identifies the running interpreter, and attaches to it from any thread.

use std::{mem, ptr};

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit, Python, ffi};

/// Returns true in the main interpreter. dlbridge releases Python's objects on any thread, which Python supports only
/// for the main interpreter: in a subinterpreter the release would wait for ever. PyO3 refuses to import modules there.
pub fn is_main_interpreter(_py: Python<'_>) -> bool {
    // SAFETY: attached, as `_py` shows, so there is a current interpreter.
    unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) == 0 }
}

/// Refuses to keep an object of a subinterpreter.
pub fn check_main_interpreter(py: Python<'_>) -> PyResult<()> {
    if is_main_interpreter(py) {
        return Ok(());
    }
    Err(PyBufferError::new_err(
        "memory cannot be imported in a subinterpreter, where it could not be released from any \
         thread; import it in the main interpreter",
    ))
}

/// Calls `release` attached, on this thread, and keeps a pending exception. If the interpreter has ended or is
/// ending, its objects cannot be released, and `release` is not called.
pub fn while_it_lives(release: impl FnOnce(Python<'_>)) {
    // SAFETY: this function may be called at any time.
    if unsafe { ffi::Py_IsInitialized() } == 0 {
        return;
    }
    // A deleter may be called by code that released the GIL inside a Rust function that holds it, so only Python
    // knows whether this thread is attached.
    // SAFETY: the interpreter is initialised, as checked above.
    let state = unsafe { ffi::PyGILState_Ensure() };
    // SAFETY: the call above attached this thread.
    let py = unsafe { Python::assume_attached() };
    keeping_pending(py, || release(py));
    // SAFETY: `state` comes from `PyGILState_Ensure` on this thread.
    unsafe { ffi::PyGILState_Release(state) };
}

/// Runs `f` with no exception pending, and restores the one that was.
///
/// A deleter or a destructor may be called while an exception is pending, and must not change it.
#[allow(deprecated, reason = "the replacements need Python 3.12")]
pub(crate) fn keeping_pending<R>(_py: Python<'_>, f: impl FnOnce() -> R) -> R {
    // Almost always no exception is pending, and this check is the fastest.
    // SAFETY: attached, as `_py` shows.
    if unsafe { ffi::PyErr_Occurred() }.is_null() {
        let result = f();
        // Checking is cheaper than clearing.
        // SAFETY: attached, as `_py` shows. The call drops an exception that `f` left pending.
        unsafe {
            if !ffi::PyErr_Occurred().is_null() {
                ffi::PyErr_Clear();
            }
        }
        return result;
    }
    let (mut kind, mut value, mut traceback) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    // SAFETY: attached, as `_py` shows; the three arguments are writable.
    unsafe { ffi::PyErr_Fetch(&mut kind, &mut value, &mut traceback) };
    let result = f();
    // SAFETY: attached; `PyErr_Fetch` returned the three values, and this call takes them back. It also clears an
    // exception that `f` left pending.
    unsafe { ffi::PyErr_Restore(kind, value, traceback) };
    result
}

/// A Python object that keeps memory alive, as the owner of a tensor: released on any thread.
pub struct PyOwner(Option<Py<PyAny>>);

impl PyOwner {
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        check_main_interpreter(object.py())?;
        Ok(Self(Some(object.clone().unbind())))
    }

    /// A second handle on the object; `None` while this one is dropped.
    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Option<Self> {
        self.0.as_ref().map(|object| Self(Some(object.clone_ref(py))))
    }

    /// Reports the object to Python's garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }
}

impl Drop for PyOwner {
    fn drop(&mut self) {
        let mut object = self.0.take();
        while_it_lives(|py| drop(object.take().map(|object| object.into_bound(py))));
        // After the interpreter's end, its references cannot be released.
        mem::forget(object);
    }
}
