//! Pending Python exceptions: keeps one while other code runs, and makes new ones.

use std::ptr;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use pyo3::{PyErr, ffi};

/// An exception of a class, with a text, and with the exception that Python code is handling as its context.
pub(crate) fn made(class: &Bound<'_, PyType>, text: &str) -> PyErr {
    let text = PyString::new(class.py(), text);
    // SAFETY: attached; both arguments are live objects. If the class is not an exception class, Python sets another
    // exception.
    unsafe { ffi::PyErr_SetObject(class.as_ptr(), text.as_ptr()) };
    PyErr::fetch(class.py())
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
