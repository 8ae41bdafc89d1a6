//! A pending Python exception, kept while code runs that might clear or replace it.

use std::ptr;

use pyo3::{Python, ffi};

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
