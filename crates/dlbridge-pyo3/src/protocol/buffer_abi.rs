//! The functions of the buffer protocol, for every target ABI.
//!
//! The stable ABI includes them from Python 3.11, so PyO3 does not declare them for an extension that is built for
//! the stable ABI of Python 3.9 or 3.10. Such an extension looks them up by name at run time. In CPython 3.9 and 3.10
//! they are public functions with the same signatures and the same struct as in the stable ABI; these two versions
//! get only security fixes.

#[cfg(all(Py_LIMITED_API, not(Py_3_11)))]
pub(crate) use by_name::{View, check, get, is_missing, release};
#[cfg(any(Py_3_11, not(Py_LIMITED_API)))]
pub(crate) use declared::{View, check, get, is_missing, release};
use pyo3::ffi;
use pyo3::prelude::*;

#[cfg(any(Py_3_11, not(Py_LIMITED_API)))]
mod declared {
    use std::ffi::c_int;

    pub(crate) use pyo3::ffi::Py_buffer as View;

    use super::*;

    /// Returns true if an object supports the protocol.
    #[inline]
    pub(crate) fn check(object: &Bound<'_, PyAny>) -> bool {
        // SAFETY: the thread is attached, and `object` is alive.
        unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) != 0 }
    }

    /// Requests a buffer with all its properties. A result other than 0 means that an exception is set.
    ///
    /// # Safety
    /// `view` is writable.
    pub(crate) unsafe fn get(object: &Bound<'_, PyAny>, view: *mut View) -> c_int {
        // SAFETY: attached, as `object` shows. The caller promises a writable view, which the function fills or
        // leaves without an object.
        unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), view, ffi::PyBUF_FULL_RO) }
    }

    /// Releases a view.
    ///
    /// # Safety
    /// [`get`] filled it, and this is its only release.
    pub(crate) unsafe fn release(_py: Python<'_>, view: *mut View) {
        // SAFETY: attached. The caller promises that `get` filled the view and that nothing has released it.
        unsafe { ffi::PyBuffer_Release(view) }
    }

    /// Returns true if the interpreter hides these functions.
    pub(crate) const fn is_missing(_py: Python<'_>) -> bool {
        false
    }
}

#[cfg(all(Py_LIMITED_API, not(Py_3_11)))]
mod by_name {
    use std::convert::Infallible;
    use std::ffi::{c_char, c_int, c_void};
    use std::{mem, ptr};

    use pyo3::exceptions::PyBufferError;
    use pyo3::sync::PyOnceLock;

    use super::*;
    use crate::once::once;
    use crate::optional_attr::interpreter;

    /// `PyBUF_FULL_RO` of `Python.h`.
    const FULL_RO: c_int = 0x11c;

    /// `Py_buffer` of `Python.h`.
    #[repr(C)]
    pub(crate) struct View {
        pub(crate) buf: *mut c_void,
        pub(crate) obj: *mut ffi::PyObject,
        pub(crate) len: ffi::Py_ssize_t,
        pub(crate) itemsize: ffi::Py_ssize_t,
        pub(crate) readonly: c_int,
        pub(crate) ndim: c_int,
        pub(crate) format: *mut c_char,
        pub(crate) shape: *mut ffi::Py_ssize_t,
        pub(crate) strides: *mut ffi::Py_ssize_t,
        pub(crate) suboffsets: *mut ffi::Py_ssize_t,
        pub(crate) internal: *mut c_void,
    }

    impl View {
        pub(crate) const fn new() -> Self {
            Self {
                buf: ptr::null_mut(),
                obj: ptr::null_mut(),
                len: 0,
                itemsize: 0,
                readonly: 0,
                ndim: 0,
                format: ptr::null_mut(),
                shape: ptr::null_mut(),
                strides: ptr::null_mut(),
                suboffsets: ptr::null_mut(),
                internal: ptr::null_mut(),
            }
        }
    }

    type Check = unsafe extern "C" fn(*mut ffi::PyObject) -> c_int;
    type Get = unsafe extern "C" fn(*mut ffi::PyObject, *mut View, c_int) -> c_int;
    type Release = unsafe extern "C" fn(*mut View);

    struct Functions {
        check: Check,
        get: Get,
        release: Release,
    }

    impl Functions {
        fn look_up(py: Python<'_>) -> Option<Self> {
            let library = interpreter(py)?;
            // SAFETY: the signatures that `Python.h` gives these functions, in every version of CPython since 3.9.
            let functions = unsafe {
                Some(Self {
                    check: (*library.get::<Option<Check>>(b"PyObject_CheckBuffer\0").ok()?)?,
                    get: (*library.get::<Option<Get>>(b"PyObject_GetBuffer\0").ok()?)?,
                    release: (*library.get::<Option<Release>>(b"PyBuffer_Release\0").ok()?)?,
                })
            };
            // The interpreter stays loaded.
            mem::forget(library);
            functions
        }
    }

    fn functions(py: Python<'_>) -> Option<&Functions> {
        static FUNCTIONS: PyOnceLock<Option<Functions>> = PyOnceLock::new();
        let Ok(functions) = once(&FUNCTIONS, py, || Ok::<_, Infallible>(Functions::look_up(py)));
        functions.as_ref()
    }

    /// Returns true if an object supports the protocol.
    pub(crate) fn check(object: &Bound<'_, PyAny>) -> bool {
        // SAFETY: the thread is attached, and `object` is alive.
        functions(object.py()).is_some_and(|f| unsafe { (f.check)(object.as_ptr()) } != 0)
    }

    /// Requests a buffer with all its properties. A result other than 0 means that an exception is set.
    ///
    /// # Safety
    /// `view` is writable.
    pub(crate) unsafe fn get(object: &Bound<'_, PyAny>, view: *mut View) -> c_int {
        match functions(object.py()) {
            // SAFETY: attached, as `object` shows. The caller promises a writable view, which the function fills or
            // leaves without an object.
            Some(functions) => unsafe { (functions.get)(object.as_ptr(), view, FULL_RO) },
            None => {
                PyBufferError::new_err(MISSING).restore(object.py());
                -1
            }
        }
    }

    /// Releases a view.
    ///
    /// # Safety
    /// [`get`] filled it, and this is its only release.
    pub(crate) unsafe fn release(py: Python<'_>, view: *mut View) {
        if let Some(functions) = functions(py) {
            // SAFETY: attached. The caller promises that `get` filled the view and that nothing has released it.
            unsafe { (functions.release)(view) }
        }
    }

    /// Returns true if the interpreter hides these functions.
    pub(crate) fn is_missing(py: Python<'_>) -> bool {
        functions(py).is_none()
    }
}

/// True if classes of this extension export buffers: PyO3 has slots for that only if the target ABI includes the protocol.
pub(crate) const EXPORTS: bool = cfg!(any(Py_3_11, not(Py_LIMITED_API)));

/// The advice if `EXPORTS` is false.
pub(crate) const NO_EXPORT: &str = "a tensor of an extension that is built for the stable ABI of Python 3.9 or 3.10 does not support the buffer protocol; \
     use numpy.asarray(tensor), or build the extension for abi3-py311 or without abi3";

/// The advice if [`is_missing`].
pub(crate) const MISSING: &str = "the interpreter hides its buffer protocol from an extension that is built for the stable \
                                  ABI of Python 3.9 or 3.10; build the extension for abi3-py311, or without abi3";
