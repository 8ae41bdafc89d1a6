//! The size of the head of every Python object, which NumPy's own fields follow.
//!
//! The stable ABI for free-threaded Pythons hides it, because the two builds of a Python have heads of different sizes
//! and load the same extension.

use pyo3::ffi;

/// The size in bytes, a multiple of eight.
#[cfg(not(all(Py_LIMITED_API, Py_GIL_DISABLED)))]
#[inline(always)]
pub(super) const fn size() -> usize {
    // The bindings declare an empty struct for some Pythons.
    const { assert!(size_of::<ffi::PyObject>() >= 2 * size_of::<usize>()) };
    const { assert!(size_of::<ffi::PyObject>().is_multiple_of(8)) };
    size_of::<ffi::PyObject>()
}

/// The size in bytes, a multiple of eight.
#[cfg(all(Py_LIMITED_API, Py_GIL_DISABLED))]
#[inline]
pub(super) fn size() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pyo3::prelude::*;

    /// 0 before the first call. Every thread finds the same number.
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    match SIZE.load(Ordering::Relaxed) {
        0 => {
            // An instance of `object` lacks other fields.
            let size = Python::attach(|py| {
                attr(&py.get_type::<PyAny>(), "__basicsize__")?.extract::<usize>()
            });
            let size = size.unwrap_or(0);
            assert!(
                size >= 2 * size_of::<usize>() && size.is_multiple_of(8),
                "the size of `object` is {size}"
            );
            SIZE.store(size, Ordering::Relaxed);
            size
        }
        size => size,
    }
}

/// The fields behind the head of an object.
///
/// # Safety
/// `object` is a live object, whose type puts `T` behind the head. The thread is attached.
#[inline(always)]
pub(super) unsafe fn fields<T>(object: *const ffi::PyObject) -> *const T {
    // SAFETY: the caller promises that the object is larger than its head.
    unsafe { object.cast::<u8>().add(size()).cast() }
}
