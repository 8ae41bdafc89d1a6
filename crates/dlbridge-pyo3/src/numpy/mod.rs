//! NumPy, through its C API: its functions (`api.rs`), its arrays read in place (`array.rs`), and here the head of arrays: the
//! fields that NumPy's C ABI puts first. They contain everything that `__dlpack__` reports.
//!
//! - **Head.** An object of NumPy's class is the head of every object and then a [`Head`], by NumPy's C API in its ABI versions 1 and 2. An
//!   attached thread reads it, and no other thread writes it meanwhile: such a thread would need the GIL; in a Python
//!   without the GIL the program promises it (`docs/free-threaded.md`), for NumPy's own functions too. `dimensions` and
//!   `strides` point at `ndim` numbers each, `descr` at an object with a [`Descr`], and `base` is NULL or an object that the array keeps.
//!
//! Source: `PyArrayObject_fields` and `PyArray_Descr` in `numpy/ndarraytypes.h`, of NumPy 1.7 to 2.5.

pub(crate) mod api;
pub mod array;

use std::ffi::c_int;
use std::marker::PhantomData;

use pyo3::ffi;
use pyo3::prelude::*;

use self::api::NumpyApi;

/// The first fields of an array.
#[repr(C)]
pub(crate) struct Head {
    pub(crate) data: *mut u8,
    pub(crate) ndim: c_int,
    pub(crate) dimensions: *const isize,
    pub(crate) strides: *const isize,
    pub(super) base: *mut ffi::PyObject,
    pub(super) descr: *mut ffi::PyObject,
    pub(crate) flags: c_int,
}

/// The first fields of a dtype.
#[repr(C)]
struct Descr {
    scalar_type: *mut ffi::PyTypeObject,
    kind: u8,
    letter: u8,
    byte_order: u8,
    flags: u8,
    /// The number of the dtype among `NPY_TYPES`.
    number: c_int,
}

impl Head {
    /// The first fields of an array.
    ///
    /// # Safety
    /// Head: attached, and `array` is a NumPy array.
    #[inline(always)]
    pub(crate) unsafe fn of(array: *const ffi::PyObject) -> *const Self {
        // SAFETY: Head, which the caller promises.
        unsafe { fields(array) }
    }
}

/// The head of an array.
///
/// - **Exact.** `array`, which only this type sets, is a live array of exactly NumPy's class, in an attached thread, for
///   `'a`. No Python code runs between [`ArrayHead::of`] and the last read of the extents, strides and base, because it
///   could replace them.
#[derive(Clone, Copy)]
pub(super) struct ArrayHead<'a> {
    array: *const ffi::PyObject,
    borrow: PhantomData<&'a ()>,
}

impl<'a> ArrayHead<'a> {
    /// The head of an array of exactly NumPy's class; `None` for other objects. The caller runs no Python code while it
    /// has the head.
    #[inline(always)]
    pub(super) fn of(api: &NumpyApi, object: &'a Bound<'_, PyAny>) -> Option<Self> {
        // Exact: the comparison, and the borrow of `object`, whose lifetime is one of an attached thread.
        let array = object.as_ptr().cast_const();
        api.is_class(object.get_type_ptr()).then_some(Self { array, borrow: PhantomData })
    }

    #[inline(always)]
    fn fields(self) -> *const Head {
        // SAFETY: Exact: a live array, in an attached thread.
        unsafe { Head::of(self.array) }
    }

    #[inline(always)]
    pub(super) fn data(self) -> *mut u8 {
        // SAFETY: Head: a field of a live array (Exact).
        unsafe { (*self.fields()).data }
    }

    #[inline(always)]
    pub(super) fn flags(self) -> c_int {
        // SAFETY: Head: a field of a live array (Exact).
        unsafe { (*self.fields()).flags }
    }

    #[inline(always)]
    pub(super) fn ndim(self) -> usize {
        // SAFETY: Head: a field of a live array (Exact). NumPy's numbers of dimensions are not negative.
        unsafe { (*self.fields()).ndim as u32 as usize }
    }

    /// The extent of an axis and its stride in bytes; `None` if the array has fewer axes.
    #[inline(always)]
    pub(super) fn axis(self, axis: usize) -> Option<(isize, isize)> {
        if axis >= self.ndim() {
            return None;
        }
        // SAFETY: Head: `ndim` numbers each, of a live array whose extents and strides no code has replaced (Exact).
        Some(unsafe {
            (
                (*self.fields()).dimensions.add(axis).read(),
                (*self.fields()).strides.add(axis).read(),
            )
        })
    }

    /// The extents and the strides in bytes.
    #[inline(always)]
    pub(super) fn axes(self) -> impl ExactSizeIterator<Item = (isize, isize)> {
        // SAFETY: Head: the fields of a live array, whose extents and strides no code has replaced (Exact).
        let (extents, strides) = unsafe { ((*self.fields()).dimensions, (*self.fields()).strides) };
        (0..self.ndim()).map(move |axis| {
            // SAFETY: Head: `ndim` numbers each; Exact: no code has replaced them, and `'a` keeps the array.
            unsafe { (extents.add(axis).read(), strides.add(axis).read()) }
        })
    }

    /// The address of NumPy's description of the dtype.
    #[inline(always)]
    pub(super) fn descr(self) -> usize {
        // SAFETY: Head: a field of a live array (Exact).
        unsafe { (*self.fields()).descr.addr() }
    }

    /// The kind of the elements, their byte order, and the number of the dtype.
    #[inline]
    pub(super) fn dtype(self) -> (u8, u8, c_int) {
        // SAFETY: Head: a live array (Exact) keeps its dtype, an object with a [`Descr`].
        unsafe {
            let descr: *const Descr = fields((*self.fields()).descr);
            ((*descr).kind, (*descr).byte_order, (*descr).number)
        }
    }

    /// The object that keeps the memory; NULL if the array owns it.
    pub(super) fn base(self) -> *mut ffi::PyObject {
        // SAFETY: Head: a field of a live array (Exact).
        unsafe { (*self.fields()).base }
    }
}

/// The size in bytes of the head of every Python object, which NumPy's own fields follow; a multiple of eight.
#[cfg(not(all(Py_LIMITED_API, Py_GIL_DISABLED)))]
#[inline(always)]
const fn size_of_head() -> usize {
    // The bindings declare an empty struct for some Pythons.
    const { assert!(size_of::<ffi::PyObject>() >= 2 * size_of::<usize>()) };
    const { assert!(size_of::<ffi::PyObject>().is_multiple_of(8)) };
    size_of::<ffi::PyObject>()
}

/// The same. The stable ABI for free-threaded Pythons hides it, because the two builds of a Python have heads of
/// different sizes and load the same extension.
#[cfg(all(Py_LIMITED_API, Py_GIL_DISABLED))]
#[inline]
fn size_of_head() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::python::objects::attr;

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
unsafe fn fields<T>(object: *const ffi::PyObject) -> *const T {
    // SAFETY: the caller promises that the object is larger than its head.
    unsafe { object.cast::<u8>().add(size_of_head()).cast() }
}
