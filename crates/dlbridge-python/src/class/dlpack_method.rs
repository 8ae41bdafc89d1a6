//! The method `__dlpack__`, built as Python's own types build theirs.
//!
//! Consumers pass two or three keywords. A C function that finds them by the addresses of their names takes half the
//! time of a `#[pymethods]` method, which compares strings.

use std::convert::Infallible;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};

use dlbridge_pyo3::producer::Keywords;
use dlbridge_pyo3::python::objects::once;

use crate::export::export;
use crate::tensor::TensorObject;

/// A definition that Python keeps a pointer to.
struct Definition(ffi::PyMethodDef);

// SAFETY: no code writes it.
unsafe impl Sync for Definition {}

const DOC: &CStr = c"__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA capsule over the tensor, as the array API standard describes it.";

static DEFINITION: Definition = Definition(ffi::PyMethodDef {
    ml_name: c"__dlpack__".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: call },
    ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
    ml_doc: DOC.as_ptr(),
});

pub(super) fn descriptor(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let class = py.get_type::<TensorObject>();
    // SAFETY: attached; a live class, and a definition that lives as long as the process.
    unsafe {
        let definition = (&raw const DEFINITION.0).cast_mut();
        let method = ffi::PyDescr_NewMethod(class.as_ptr().cast(), definition);
        Bound::from_owned_ptr_or_err(py, method).map(Bound::unbind)
    }
}

/// The keywords, the most common first.
fn names(py: Python<'_>) -> &[Py<PyString>; 4] {
    static NAMES: PyOnceLock<[Py<PyString>; 4]> = PyOnceLock::new();
    let Ok(names) = once(&NAMES, py, || {
        let (version, device) = (intern!(py, "max_version"), intern!(py, "dl_device"));
        let names = [version, device, intern!(py, "copy"), intern!(py, "stream")];
        Ok::<_, Infallible>(names.map(|name| name.clone().unbind()))
    });
    names
}

/// Handles a call.
///
/// # Safety
/// As Python calls a method with these flags: attached, with an object of the class, `count` positional arguments,
/// and behind them one argument for each name in the tuple `keywords`, which may be NULL.
unsafe extern "C" fn call(
    object: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls a method on an attached thread.
    let py = unsafe { Python::assume_attached() };
    let answer = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the arguments are those that Python passed to this function.
        unsafe { answer(py, object, arguments, count, keywords) }
    }));
    let error = match answer {
        Ok(Ok(capsule)) => return capsule.into_ptr(),
        Ok(Err(error)) => error,
        Err(_) => PanicException::new_err("dlbridge panicked in __dlpack__"),
    };
    // PyO3 frees objects that were dropped here when it attaches the next time: now, before an exception is pending.
    Python::attach(|py| error.restore(py));
    ptr::null_mut()
}

/// # Safety
/// As for [`call`].
unsafe fn answer<'py>(
    py: Python<'py>,
    object: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: Python calls this through the descriptor that `descriptor` makes, which refuses objects of other
    // classes first.
    let object = unsafe { Borrowed::from_ptr(py, object).cast_unchecked::<TensorObject>() };

    if count != 0 {
        return Err(PyTypeError::new_err(format!(
            "__dlpack__() takes keywords only, and got {count} positional arguments"
        )));
    }
    let mut given: [Option<Borrowed<'_, 'py, PyAny>>; 4] = [None; 4];
    // SAFETY: the calling convention `METH_FASTCALL | METH_KEYWORDS` passes NULL, or a tuple that lives during the
    // call.
    let keywords = unsafe {
        Borrowed::from_ptr_or_opt(py, keywords).map(|names| names.cast_unchecked::<PyTuple>())
    };
    for (place, name) in keywords.iter().flat_map(|keywords| keywords.iter_borrowed()).enumerate() {
        let Some(known) = known(py, &name)? else {
            return Err(PyTypeError::new_err(format!(
                "__dlpack__() got an unexpected keyword argument '{}'",
                &*name
            )));
        };
        // SAFETY: the convention passes one argument for each name, behind the positional ones, and
        // these were refused above; `place` counts names.
        let argument = unsafe { Borrowed::from_ptr(py, arguments.add(place).read()) };
        given[known] = Some(argument).filter(|argument| !argument.is_none());
    }
    let [max_version, dl_device, copy, stream] = given;
    let keywords = Keywords { stream, max_version, dl_device, copy };
    export(py, object.get(), &keywords).map(Bound::into_any)
}

/// The index of a keyword among the names. Python interns the names that a program contains, so addresses usually
/// match.
fn known(py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    let names = names(py);
    if let Some(place) = names.iter().position(|known| known.as_ptr() == name.as_ptr()) {
        return Ok(Some(place));
    }
    for (place, known) in names.iter().enumerate() {
        if name.eq(known)? {
            return Ok(Some(place));
        }
    }
    Ok(None)
}
