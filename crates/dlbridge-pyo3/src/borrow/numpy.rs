//! rust-numpy's registry of borrows, for NumPy arrays.
//!
//! Extensions that use rust-numpy share a capsule, which the first of them stores in a module of NumPy. If the
//! capsule exists when dlbridge first borrows an array, dlbridge borrows in both registries. Otherwise dlbridge
//! stores its own registry there, and those extensions use it.
//!
//! Source: `borrow/shared.rs` of numpy 0.30 on crates.io, version 1 of its interface.

use std::ffi::{CStr, c_int, c_void};
use std::mem;
use std::num::NonZeroUsize;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};

use dlbridge::fork::ForkMutex;
use dlbridge_borrow::{Label, Mode, Region};
use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCapsule;

use super::shared::Shared;
use crate::numpy::Head;
use crate::numpy::api::{self, NumpyApi, WRITEABLE};
use crate::numpy::array::NumpyArray;
use crate::python::error::ErrorClass;
use crate::python::interpreter::while_it_lives;
use crate::python::objects::attr;
use crate::python::objects::once;

/// The name of the capsule, and of the module's attribute.
const NAME: &CStr = c"_RUST_NUMPY_BORROW_CHECKING_API";

/// The borrows in our registry that extensions with rust-numpy hold, in a list for some addresses of arrays: a map of the
/// standard library would add 10 kB of code. Only attached threads take the lock.
static RECORDED: ForkMutex<[Vec<Recorded>; LISTS]> = ForkMutex::new([const { Vec::new() }; LISTS]);

const LISTS: usize = 256;

/// The struct that rust-numpy shares between extensions.
///
/// - **Interface.** The caller is attached and passes `flags` and a NumPy array. It calls `release` at most once for
///   each `acquire` that returned 0; without that call the memory stays borrowed. Everything lives as long as the
///   process.
#[repr(C)]
struct Interface {
    version: u64,
    flags: *mut c_void,
    acquire: unsafe extern "C" fn(*mut c_void, *mut ffi::PyObject) -> c_int,
    acquire_mut: unsafe extern "C" fn(*mut c_void, *mut ffi::PyObject) -> c_int,
    release: unsafe extern "C" fn(*mut c_void, *mut ffi::PyObject),
    release_mut: unsafe extern "C" fn(*mut c_void, *mut ffi::PyObject),
}

// SAFETY: Interface: no code writes it, and its functions are called by attached threads.
unsafe impl Send for Interface {}
// SAFETY: Interface: its functions may be called by any attached thread, and no code writes its fields.
unsafe impl Sync for Interface {}

/// The results of the functions.
const GRANTED: c_int = 0;
const IN_THE_WAY: c_int = -1;
const NOT_WRITEABLE: c_int = -2;

/// A borrow in rust-numpy's own registry. Ends on drop, on any thread.
pub(super) struct NumpyBorrow {
    interface: &'static Interface,
    mode: Mode,
    /// The borrowed array: a view that only this borrow has, so no other code can reshape it.
    view: Option<Py<PyAny>>,
    /// The address of the object that kept its memory, which `__setstate__` of that object can change.
    root: usize,
}

/// Shares our registry with rust-numpy, or finds rust-numpy's, if NumPy is loaded.
pub(super) fn share(py: Python<'_>, shared: &'static Shared) -> PyResult<()> {
    if api::class(py)?.is_some() {
        Interface::of_process(py, shared)?;
    }
    Ok(())
}

impl NumpyBorrow {
    /// As [`acquire`](Self::acquire), for the time after the first borrow of an array; `None` if that is refused. No code
    /// reshapes the array meanwhile.
    #[inline]
    pub(super) fn of_array(
        array: &Bound<'_, PyAny>,
        shared: &'static Shared,
        mode: Mode,
    ) -> Option<Option<Box<Self>>> {
        INTERFACE.get(array.py())?;
        Self::acquire(array, shared, mode).ok()
    }

    /// Borrows a NumPy array; `None` if rust-numpy uses our registry.
    pub(super) fn acquire(
        array: &Bound<'_, PyAny>,
        shared: &'static Shared,
        mode: Mode,
    ) -> PyResult<Option<Box<Self>>> {
        let py = array.py();
        let interface = Interface::of_process(py, shared)?;
        if interface.is_ours(shared) {
            return Ok(None);
        }
        let api = NumpyApi::required(py)?;
        // SAFETY: Head of `numpy/mod.rs`: only objects of NumPy's class or a subclass are borrowed here.
        let view = unsafe { api.view_of(array) }?;
        let reason = match interface.borrow(&view, mode) {
            GRANTED => {
                // SAFETY: Head of `numpy/mod.rs`: a NumPy array.
                let root = unsafe { api.root(&view) };
                return Ok(Some(Box::new(Self {
                    interface,
                    mode,
                    view: Some(view.unbind()),
                    root,
                })));
            }
            NOT_WRITEABLE => "the array is not writeable; pass one that is, or a copy",
            _ => {
                "the memory of this numpy.ndarray overlaps that of an array which an extension \
                 built on rust-numpy has borrowed; pass memory of its own, or a copy"
            }
        };
        Err(ErrorClass::Borrowed.new_err(py, reason))
    }

    /// Ends the borrow. If the array that owned the elements has others now, no array leads to the borrow any more. Then
    /// the memory stays borrowed, because rust-numpy aborts the process on a release that it does not find.
    pub(super) fn end(&mut self, py: Python<'_>) {
        let Some(view) = self.view.take().map(|view| view.into_bound(py)) else { return };
        // SAFETY: Head of `numpy/mod.rs`: a NumPy array.
        let is_kept = |api: &NumpyApi| unsafe { api.root(&view) } == self.root;
        if NumpyApi::known(py).is_some_and(is_kept) {
            self.interface.give_back(&view, self.mode);
        }
    }
}

impl Drop for NumpyBorrow {
    fn drop(&mut self) {
        if self.view.is_some() {
            while_it_lives(|py| self.end(py));
            // After the interpreter's end, its references cannot be released.
            mem::forget(self.view.take());
        }
    }
}

/// The interface that rust-numpy and this extension share, set by the first borrow of an array.
static INTERFACE: PyOnceLock<&'static Interface> = PyOnceLock::new();

impl Interface {
    /// Returns true if rust-numpy uses our registry.
    #[inline]
    fn is_ours(&self, shared: &'static Shared) -> bool {
        ptr::eq(self.flags.cast(), shared)
    }

    /// Requests a borrow of an array.
    #[inline]
    fn borrow(&self, array: &Bound<'_, PyAny>, mode: Mode) -> c_int {
        let array = array.as_ptr();
        // SAFETY: Interface: this thread is attached, and `array` is a NumPy array.
        unsafe {
            match mode {
                Mode::Read => (self.acquire)(self.flags, array),
                Mode::Write => (self.acquire_mut)(self.flags, array),
            }
        }
    }

    /// Ends a borrow of an array. Called at most once for each granted borrow.
    fn give_back(&self, array: &Bound<'_, PyAny>, mode: Mode) {
        let array = array.as_ptr();
        // SAFETY: Interface: this thread is attached, and the elements of `array` are at the place that was borrowed.
        unsafe {
            match mode {
                Mode::Read => (self.release)(self.flags, array),
                Mode::Write => (self.release_mut)(self.flags, array),
            }
        }
    }

    /// The interface of this process. NumPy must be imported.
    fn of_process(py: Python<'_>, shared: &'static Shared) -> PyResult<&'static Self> {
        let interface = *once(&INTERFACE, py, || Self::find_or_offer(py, shared))?;
        shared.note_alone(interface.is_ours(shared));
        Ok(interface)
    }

    fn find_or_offer(py: Python<'_>, shared: &'static Shared) -> PyResult<&'static Self> {
        // The module that rust-numpy uses; NumPy 2 renamed it.
        let version: String = attr(py.import("numpy")?.as_any(), "__version__")?.extract()?;
        let old = version.starts_with("0.") || version.starts_with("1.");
        let name = if old { "numpy.core.multiarray" } else { "numpy._core.multiarray" };
        let namespace = attr(py.import(name)?.as_any(), "__dict__")?;
        let ours = Box::leak(Box::new(Self {
            version: 1,
            flags: ptr::from_ref(shared).cast_mut().cast(),
            acquire: read,
            acquire_mut: write,
            release: end_read,
            release_mut: end_write,
        }));
        // SAFETY: the pointer is valid for the life of the process, and has the type that the name stands for.
        let ours = unsafe { PyCapsule::new_with_pointer(py, NonNull::from(ours).cast(), NAME) }?;
        let key = NAME.to_str().unwrap_or_default();
        let found = namespace.call_method1(intern!(py, "setdefault"), (key, ours))?;
        let pointer = found.cast_into::<PyCapsule>()?.pointer_checked(Some(NAME))?;
        // SAFETY: a capsule of this name holds an interface of rust-numpy, which begins with its version.
        let version = unsafe { pointer.cast::<u64>().read() };
        if version < 1 {
            return Err(PyImportError::new_err(format!(
                "an extension built on rust-numpy shares borrows by version {version} of its interface; \
                 dlbridge needs version 1 or later: build that extension anew"
            )));
        }
        // SAFETY: Interface, by the name and the version; later versions only add fields.
        Ok(unsafe { pointer.cast().as_ref() })
    }
}

/// An attribute of NumPy's class of arrays, regardless of what subclasses override.
fn class_attr<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let missing = || PyImportError::new_err("NumPy's class of arrays is not loaded");
    let class = api::class(py)?.ok_or_else(missing)?;
    attr(class, name)
}

/// A borrow that an extension built on rust-numpy holds in our registry.
struct Recorded {
    array: usize,
    /// The address of the first element, and the extents and byte strides, when the array was borrowed.
    layout: (usize, Vec<(i64, i64)>),
    mode: Mode,
    ticket: NonZeroUsize,
}

/// The address of the first element of an array, its extents and its byte strides.
///
/// # Safety
/// The rules of [`Interface`].
unsafe fn layout(array: *const ffi::PyObject) -> (usize, Vec<(i64, i64)>) {
    // SAFETY: Interface: a NumPy array, with `ndim` extents and `ndim` strides.
    unsafe {
        let head = Head::of(array);
        let (ndim, extents, strides) = ((*head).ndim, (*head).dimensions, (*head).strides);
        let numbers = |axis| (extents.add(axis).read() as i64, strides.add(axis).read() as i64);
        ((*head).data.addr(), (0..usize::try_from(ndim).unwrap_or(0)).map(numbers).collect())
    }
}

/// The functions of [`Interface`].
macro_rules! functions {
    ($($name:ident: $function:ident, $mode:ident, $result:ty;)*) => {$(
        unsafe extern "C" fn $name(flags: *mut c_void, array: *mut ffi::PyObject) -> $result {
            // SAFETY: Interface: the caller keeps its rules.
            unsafe { $function(flags, array, Mode::$mode) }
        }
    )*};
}

functions! {
    read: borrow, Read, c_int;
    write: borrow, Write, c_int;
    end_read: give_back, Read, ();
    end_write: give_back, Write, ();
}

/// The list of the borrows of an array, and of some others.
fn list(array: *mut ffi::PyObject) -> usize {
    (array.addr() >> 4 ^ array.addr() >> 12) % LISTS
}

/// Borrows the bytes of an array.
///
/// # Safety
/// The rules of [`Interface`]; `flags` is a [`Shared`].
#[inline(never)]
unsafe fn borrow(flags: *mut c_void, array: *mut ffi::PyObject, mode: Mode) -> c_int {
    static LABEL: Label = Label::new(b"numpy.ndarray");
    let acquire = || -> PyResult<c_int> {
        // SAFETY: Interface: the caller is attached.
        let py = unsafe { Python::assume_attached() };
        // SAFETY: Interface: `find_or_offer` set `flags` to a `Shared`, which lives as long as the process.
        let shared = unsafe { &*flags.cast_const().cast::<Shared>() };
        // SAFETY: Interface: `array` is a NumPy array.
        let flags = unsafe { (*Head::of(array)).flags };
        if mode == Mode::Write && flags & WRITEABLE == 0 {
            return Ok(NOT_WRITEABLE);
        }
        // SAFETY: `array` is a valid Python object, and `from_borrowed_ptr` takes a new reference.
        let object = unsafe { Bound::from_borrowed_ptr(py, array) };
        let itemsize = match NumpyArray::dtype_of(&object) {
            Some(dtype) => dtype.itemsize(),
            None => {
                let itemsize = class_attr(py, "itemsize")?;
                attr(&itemsize, "__get__")?.call1((object,))?.extract()?
            }
        };
        // SAFETY: Interface: `array` is a NumPy array.
        let layout = unsafe { layout(array) };
        let bytes = Region::new(layout.0, itemsize, layout.1.iter().copied());
        let Ok(ticket) = shared.acquire(bytes, mode, &LABEL) else { return Ok(IN_THE_WAY) };
        let recorded = Recorded { array: array.addr(), layout, mode, ticket };
        RECORDED.lock()[list(array)].push(recorded);
        Ok(GRANTED)
    };
    // A panic must not cross into another extension.
    match panic::catch_unwind(AssertUnwindSafe(acquire)) {
        Ok(Ok(answer)) => answer,
        _ => IN_THE_WAY,
    }
}

/// Ends a borrow of an array: the one with the array's present layout, if there are several.
///
/// # Safety
/// The rules of [`Interface`]; `flags` is a [`Shared`].
#[inline(never)]
unsafe fn give_back(flags: *mut c_void, array: *mut ffi::PyObject, mode: Mode) {
    let release = || {
        // SAFETY: Interface: `find_or_offer` set `flags` to a `Shared`, which lives as long as the process.
        let shared = unsafe { &*flags.cast_const().cast::<Shared>() };
        // SAFETY: Interface: `array` is a NumPy array.
        let now = unsafe { layout(array) };
        let mut recorded = RECORDED.lock();
        let borrows = &mut recorded[list(array)];
        let of_array = |borrow: &Recorded| borrow.array == array.addr() && borrow.mode == mode;
        let place = borrows.iter().rposition(|borrow| of_array(borrow) && borrow.layout == now);
        let place = place.or_else(|| borrows.iter().position(of_array));
        let ticket = place.map(|place| borrows.swap_remove(place).ticket);
        drop(recorded);
        if let Some(ticket) = ticket {
            shared.release(ticket);
        }
    };
    // A panic must not cross into another extension. The list is consistent at any time.
    let _ = panic::catch_unwind(AssertUnwindSafe(release));
}
