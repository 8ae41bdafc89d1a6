//! Counts of references.

use pyo3::ffi;
use pyo3::prelude::*;

/// Returns true if the caller's reference to an object is the only one.
///
/// # Safety
/// `object` is a live object.
pub unsafe fn has_one_reference(py: Python<'_>, object: *mut ffi::PyObject) -> bool {
    #[cfg(Py_GIL_DISABLED)]
    if let Some(is_unique) = free_threaded::function(py) {
        // SAFETY: attached; the caller promises a live object.
        return unsafe { is_unique(object) } != 0;
    }
    let _ = py;
    // Without that function: Python 3.13, or Windows, where a reference is never known to be the only one.
    let is_counted = cfg!(any(unix, not(Py_GIL_DISABLED)));
    // SAFETY: attached; the caller promises a live object.
    is_counted && unsafe { ffi::Py_REFCNT(object) == 1 }
}

/// Without the GIL other threads change a count, which has two halves, while it is read. So Python 3.14 and later have a
/// function that also compares the thread that made the object. It is looked up by name, because the stable ABI for
/// free-threaded Pythons lacks it.
#[cfg(Py_GIL_DISABLED)]
mod free_threaded {
    use std::convert::Infallible;
    use std::ffi::{c_int, c_void};
    use std::mem;
    use std::ptr::NonNull;

    use pyo3::ffi;
    use pyo3::prelude::*;
    use pyo3::sync::PyOnceLock;

    use crate::once::once;
    use crate::optional_attr::symbol;

    type IsUnique = unsafe extern "C" fn(*mut ffi::PyObject) -> c_int;

    pub(super) fn function(py: Python<'_>) -> Option<IsUnique> {
        static FUNCTION: PyOnceLock<Option<IsUnique>> = PyOnceLock::new();
        let find = || {
            let found = symbol(c"PyUnstable_Object_IsUniquelyReferenced")?;
            // SAFETY: the signature that `Python.h` gives the function, in every version of CPython that has it.
            Some(unsafe { mem::transmute::<NonNull<c_void>, IsUnique>(found) })
        };
        let Ok(function) = once(&FUNCTION, py, || Ok::<_, Infallible>(find()));
        *function
    }
}
