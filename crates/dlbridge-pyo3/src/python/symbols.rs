//! Functions of the interpreter that the stable ABI lacks in some versions, looked up by name at run time. So an
//! extension that is built for an older ABI uses the function of its interpreter. No function is found on Windows.

use std::convert::Infallible;
use std::ffi::{CStr, c_int, c_void};
use std::mem;
use std::ptr::{self, NonNull};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

use crate::python::once::once;

/// A function pointer, once it was looked up; `None` inside if the interpreter does not export the function.
type Symbol<F> = PyOnceLock<Option<F>>;

/// The function of a cell, which has the first of `names` that the interpreter exports.
///
/// # Safety
/// `F` is a function pointer, with the signature that `Python.h` gives all functions of these names, in every version
/// of CPython that has one of them.
unsafe fn function<F: Copy>(cell: &Symbol<F>, py: Python<'_>, names: &[&CStr]) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<NonNull<c_void>>()) };
    let find = || {
        let found = names.iter().find_map(|name| address(name))?;
        // SAFETY: the address of a function that the caller promises to have this type.
        Some(unsafe { mem::transmute_copy::<NonNull<c_void>, F>(&found) })
    };
    let Ok(function) = once(cell, py, || Ok::<_, Infallible>(find()));
    *function
}

fn address(name: &CStr) -> Option<NonNull<c_void>> {
    #[cfg(unix)]
    // SAFETY: a name that ends with a zero, and the symbols of the process, in which the interpreter stays loaded.
    return NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) });
    #[cfg(not(unix))]
    return Some(name).and(None);
}

/// An attribute of an object; `None` if the object lacks it.
///
/// The stable ABI has a function for this from Python 3.13 on. Earlier versions of CPython export the same function
/// under a private name; the last of them, 3.12, gets only security fixes. Without either, Python raises an
/// `AttributeError` for each missing attribute, which takes ten times as long.
///
/// # Errors
/// Any exception of the lookup other than `AttributeError`.
pub(crate) fn optional_attr<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    /// Stores a new reference, or NULL for a missing attribute. Returns a negative number if an exception is set.
    type LookUp = unsafe extern "C" fn(
        *mut ffi::PyObject,
        *mut ffi::PyObject,
        *mut *mut ffi::PyObject,
    ) -> c_int;
    static LOOK_UP: Symbol<LookUp> = Symbol::new();
    let (py, names) = (object.py(), [c"PyObject_GetOptionalAttr", c"_PyObject_LookupAttr"]);
    // SAFETY: the signature of both functions.
    let Some(look_up) = (unsafe { function(&LOOK_UP, py, &names) }) else {
        return object.getattr_opt(name);
    };
    let mut found = ptr::null_mut();
    // SAFETY: attached; an object, a string, and a place for the result.
    let status = unsafe { look_up(object.as_ptr(), name.as_ptr(), &raw mut found) };
    if status < 0 {
        return Err(PyErr::fetch(py));
    }
    // SAFETY: attached; a new reference, or NULL.
    Ok(unsafe { Bound::from_owned_ptr_or_opt(py, found) })
}

/// Returns true if the caller's reference to an object is the only one.
///
/// Without the GIL other threads change a count, which has two halves, while it is read. So Python 3.14 and later have a
/// function that also compares the thread that made the object; the stable ABI for free-threaded Pythons lacks it.
///
/// # Safety
/// `object` is a live object.
pub unsafe fn has_one_reference(py: Python<'_>, object: *mut ffi::PyObject) -> bool {
    type IsUnique = unsafe extern "C" fn(*mut ffi::PyObject) -> c_int;
    static IS_UNIQUE: Symbol<IsUnique> = Symbol::new();
    let names = [c"PyUnstable_Object_IsUniquelyReferenced"];
    if cfg!(Py_GIL_DISABLED)
        // SAFETY: the signature of the function.
        && let Some(is_unique) = unsafe { function(&IS_UNIQUE, py, &names) }
    {
        // SAFETY: attached; the caller promises a live object.
        return unsafe { is_unique(object) } != 0;
    }
    // Without that function: Python 3.13, or Windows, where a reference is never known to be the only one.
    let is_counted = cfg!(any(unix, not(Py_GIL_DISABLED)));
    // SAFETY: attached; the caller promises a live object.
    is_counted && unsafe { ffi::Py_REFCNT(object) == 1 }
}
