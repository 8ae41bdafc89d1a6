//! Pending Python exceptions: one that is kept while code runs that might clear or replace it, and new ones.

use std::ptr;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use pyo3::{PyErr, ffi};

/// An exception of a class, with a text and with the exception that Python code is handling as its context.
pub(crate) fn made(class: &Bound<'_, PyType>, text: &str) -> PyErr {
    let text = PyString::new(class.py(), text);
    // SAFETY: attached; two objects. For a class that is not one of exceptions, Python sets another exception.
    unsafe { ffi::PyErr_SetObject(class.as_ptr(), text.as_ptr()) };
    PyErr::fetch(class.py())
}

/// Runs `f` with no exception pending, and puts back the one that was.
///
/// A deleter or a destructor may be called while an exception is on its way; what it does must not
/// change that.
#[allow(deprecated, reason = "the replacements need Python 3.12")]
pub(crate) fn keeping_pending<R>(_py: Python<'_>, f: impl FnOnce() -> R) -> R {
    // Nearly always there is none, and that is asked soonest.
    // SAFETY: attached, as `_py` shows.
    if unsafe { ffi::PyErr_Occurred() }.is_null() {
        let result = f();
        // Asking is cheaper than clearing.
        // SAFETY: as above; what `f` left pending is nobody's.
        unsafe {
            if !ffi::PyErr_Occurred().is_null() {
                ffi::PyErr_Clear();
            }
        }
        return result;
    }
    let (mut kind, mut value, mut traceback) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    // SAFETY: attached, as `_py` shows; three places to write to.
    unsafe { ffi::PyErr_Fetch(&mut kind, &mut value, &mut traceback) };
    let result = f();
    // SAFETY: attached; the three came out of `PyErr_Fetch` and are given back, which also clears
    // whatever `f` left pending.
    unsafe { ffi::PyErr_Restore(kind, value, traceback) };
    result
}
