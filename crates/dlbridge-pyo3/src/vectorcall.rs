//! Calls of Python without a tuple for the arguments or a dictionary for the keywords.
//!
//! `PyObject_Vectorcall` is part of Python's C API since 3.9, and of its stable ABI, in the same form, since
//! 3.12: the bindings for older versions do not declare it.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

unsafe extern "C" {
    fn PyObject_Vectorcall(
        callable: *mut ffi::PyObject,
        arguments: *const *mut ffi::PyObject,
        count: usize,
        keywords: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
}

/// Calls something with one argument.
pub(crate) fn with_one<'py>(
    callable: &Bound<'py, PyAny>,
    argument: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let arguments = [argument.as_ptr()];
    // SAFETY: attached; an object, one argument, and no keywords.
    unsafe {
        let answer =
            PyObject_Vectorcall(callable.as_ptr(), arguments.as_ptr(), 1, std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(callable.py(), answer)
    }
}

/// Calls something with one keyword, whose name is all that is in `names`.
pub(crate) fn with_keyword<'py>(
    callable: &Bound<'py, PyAny>,
    names: &Bound<'py, PyTuple>,
    argument: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    debug_assert_eq!(names.len(), 1);
    let arguments = [argument.as_ptr()];
    // SAFETY: attached; an object, no arguments, and one for a tuple with one name.
    unsafe {
        let answer = PyObject_Vectorcall(callable.as_ptr(), arguments.as_ptr(), 0, names.as_ptr());
        Bound::from_owned_ptr_or_err(callable.py(), answer)
    }
}
