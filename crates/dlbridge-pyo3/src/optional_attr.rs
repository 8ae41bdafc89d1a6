//! Looks up an attribute that an object may lack, without an exception for a missing one.
//!
//! The stable ABI has a function for this from Python 3.13 on. Earlier versions of CPython export the same function
//! under a private name; the last of them, 3.12, gets only security fixes. Both are looked up by name at run time, so an
//! extension that is built for an older ABI uses the function of its interpreter. Without either, and on Windows, Python
//! raises an `AttributeError` for each missing attribute, which takes ten times as long.

use std::convert::Infallible;
use std::ffi::{CStr, c_int, c_void};
use std::mem;
use std::ptr::{self, NonNull};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

use crate::once::once;

/// Stores a new reference, or NULL for a missing attribute. Returns a negative number if an exception is set.
type LookUp =
    unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject, *mut *mut ffi::PyObject) -> c_int;

/// The name from Python 3.13 on, and the one before.
const NAMES: [&CStr; 2] = [c"PyObject_GetOptionalAttr", c"_PyObject_LookupAttr"];

/// An attribute of an object; `None` if the object lacks it.
///
/// # Errors
/// Any exception of the lookup other than `AttributeError`.
pub(crate) fn optional_attr<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    let Some(look_up) = function(py) else { return object.getattr_opt(name) };
    let mut found = ptr::null_mut();
    // SAFETY: attached; an object, a string, and a place for the result.
    let status = unsafe { look_up(object.as_ptr(), name.as_ptr(), &raw mut found) };
    if status < 0 {
        return Err(PyErr::fetch(py));
    }
    // SAFETY: attached; a new reference, or NULL.
    Ok(unsafe { Bound::from_owned_ptr_or_opt(py, found) })
}

fn function(py: Python<'_>) -> Option<LookUp> {
    static FUNCTION: PyOnceLock<Option<LookUp>> = PyOnceLock::new();
    let find = || {
        let found = NAMES.into_iter().find_map(symbol)?;
        // SAFETY: the signature that `Python.h` gives both functions, in every version of CPython that has one of them.
        Some(unsafe { mem::transmute::<NonNull<c_void>, LookUp>(found) })
    };
    let Ok(function) = once(&FUNCTION, py, || Ok::<_, Infallible>(find()));
    *function
}

/// A function that the interpreter exports, by its name; always `None` on Windows.
pub(crate) fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    #[cfg(unix)]
    // SAFETY: a name that ends with a zero, and the symbols of the process, in which the interpreter stays loaded.
    return NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) });
    #[cfg(not(unix))]
    return Some(name).and(None);
}
