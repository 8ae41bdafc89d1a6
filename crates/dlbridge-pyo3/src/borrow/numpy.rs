//! rust-numpy's registry of borrows, for NumPy arrays.
//!
//! Extensions that use rust-numpy share a capsule, which the first of them stores in a module of NumPy. If the
//! capsule exists when dlbridge first borrows an array, dlbridge borrows in both registries. Otherwise dlbridge
//! stores its own registry there, and those extensions use it.
//!
//! Source: `borrow/shared.rs` of numpy 0.30 on crates.io, version 1 of its interface.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::ffi::{CStr, c_int, c_void};
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};

use dlbridge::fork::ForkMutex;
use dlbridge_borrow::Mode;
use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCapsule;

use super::bytes::{Bytes, Numbers};
use super::shared::Shared;
use crate::classes::attr;
use crate::error::ErrorClass;
use crate::interpreter::while_it_lives;
use crate::numpy::api::{self, NumpyApi, WRITEABLE};
use crate::numpy::array::NumpyArray;
use crate::numpy::geometry::Geometry;
use crate::numpy::head::Head;
use crate::once::once;
use crate::pending::keeping_pending;

/// The name of the capsule, and of the module's attribute.
const NAME: &CStr = c"_RUST_NUMPY_BORROW_CHECKING_API";

/// The borrows in our registry that extensions with rust-numpy hold, by the address of the array. Only attached threads
/// take the lock.
static RECORDED: ForkMutex<HashMap<usize, Vec<Recorded>, ByAddress>> =
    ForkMutex::new(HashMap::with_hasher(ByAddress::new()));

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

/// An entry in rust-numpy's own registry.
#[derive(Clone, Copy)]
struct Entry {
    interface: &'static Interface,
    mode: Mode,
    /// The geometry of the array when it was borrowed; `None` for a view that only this borrow has.
    place: Option<Geometry>,
}

/// A borrow in rust-numpy's own registry, which an attached thread ends.
pub struct AttachedBorrow<'py> {
    entry: Entry,
    array: Option<Bound<'py, PyAny>>,
    /// The other object that kept the array's elements, if there was one. `__setstate__` can remove it from the
    /// array.
    base: Option<Bound<'py, PyAny>>,
}

/// A borrow in rust-numpy's own registry, which any thread may end.
pub struct NumpyBorrow {
    entry: Entry,
    array: Option<Py<PyAny>>,
    base: Option<Py<PyAny>>,
}

/// Returns true if rust-numpy is known to use our registry.
#[inline]
pub(super) fn is_ours(py: Python<'_>, shared: &'static Shared) -> bool {
    INTERFACE.get(py).is_some_and(|interface| ptr::eq(interface.flags.cast(), shared))
}

/// Shares our registry with rust-numpy, or finds rust-numpy's, if NumPy is loaded.
pub(super) fn share(py: Python<'_>, shared: &'static Shared) -> PyResult<()> {
    if api::class(py)?.is_some() {
        Interface::of_process(py, shared)?;
    }
    Ok(())
}

impl<'py> AttachedBorrow<'py> {
    /// Borrows an array of exactly NumPy's class; `None` if that is refused, or if [`acquire`](Self::acquire) must
    /// decide.
    pub(super) fn of_array(
        object: &Bound<'py, PyAny>,
        shared: &'static Shared,
        mode: Mode,
    ) -> Option<Box<Self>> {
        let interface = *INTERFACE.get(object.py())?;
        if ptr::eq(interface.flags.cast(), shared) {
            return None;
        }
        let entry = Entry { interface, mode, place: None };
        let mut borrow = Box::new(Self { entry, array: None, base: None });
        // Written to its final address: a move would cost more than reading the array.
        let place = borrow.entry.place.insert(Geometry::EMPTY);
        if !place.read(object) || interface.borrow(object, mode) != GRANTED {
            return None;
        }
        borrow.array = Some(object.clone());
        borrow.base = NumpyArray::base(object);
        Some(borrow)
    }

    /// Borrows a NumPy array; `None` if rust-numpy uses our registry.
    pub(super) fn acquire(
        object: &Bound<'py, PyAny>,
        shared: &'static Shared,
        mode: Mode,
    ) -> PyResult<Option<Self>> {
        let py = object.py();
        let interface = Interface::of_process(py, shared)?;
        if ptr::eq(interface.flags.cast(), shared) {
            return Ok(None);
        }
        let place = Geometry::of(object);
        // Without a geometry, borrows a new view, which no other code can reshape before the release.
        let object = match place {
            Some(_) => object.clone(),
            None => Numpy::get(py)?.view(object)?,
        };
        let reason = match interface.borrow(&object, mode) {
            GRANTED => {
                let entry = Entry { interface, mode, place };
                let base = NumpyArray::base(&object);
                return Ok(Some(Self { entry, array: Some(object), base }));
            }
            NOT_WRITEABLE => "the array is not writeable; pass one that is, or a copy",
            _ => {
                "the memory of this numpy.ndarray overlaps that of an array which an extension \
                 built on rust-numpy has borrowed; pass memory of its own, or a copy"
            }
        };
        Err(ErrorClass::Borrowed.new_err(py, reason))
    }

    /// Converts the borrow so that any thread may end it.
    pub(super) fn detached(mut self) -> NumpyBorrow {
        let array = self.array.take().map(Bound::unbind);
        NumpyBorrow { entry: self.entry, array, base: self.base.take().map(Bound::unbind) }
    }
}

impl Drop for AttachedBorrow<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(array) = &self.array {
            self.entry.give_back(array, self.base.as_ref());
        }
    }
}

impl Drop for NumpyBorrow {
    fn drop(&mut self) {
        let (entry, mut kept) = (self.entry, Some((self.array.take(), self.base.take())));
        while_it_lives(|py| {
            if let Some((Some(array), base)) = kept.take() {
                let (array, base) = (array.into_bound(py), base.map(|base| base.into_bound(py)));
                entry.give_back(&array, base.as_ref());
            }
        });
        // After the interpreter's end, its references cannot be released.
        std::mem::forget(kept);
    }
}

impl Entry {
    /// Ends the borrow by the borrowed array; if the array has changed since, by a view with the recorded geometry
    /// and base. If the array owned its elements and has others now, no array leads to the borrow any more. Then the
    /// memory stays borrowed, because rust-numpy aborts the process on a release that it does not find.
    fn give_back(&self, array: &Bound<'_, PyAny>, base: Option<&Bound<'_, PyAny>>) {
        match &self.place {
            Some(was) if !was.is_of(array) => keeping_pending(array.py(), || {
                if let Some(view) = view_as_it_was(base.unwrap_or(array), was) {
                    self.interface.give_back(&view, self.mode);
                }
            }),
            _ => self.interface.give_back(array, self.mode),
        }
    }
}

/// A view of the elements that the array had, with the base that kept them; `None` if they have another owner now.
#[cold]
fn view_as_it_was<'py>(base: &Bound<'py, PyAny>, was: &Geometry) -> Option<Bound<'py, PyAny>> {
    let api = NumpyApi::known(base.py())?;
    // SAFETY: only rust-numpy's registry gets the view, and it computes with the address and does not read elements.
    let view =
        unsafe { api.view_as_it_was(base, was.descr, was.data, was.extents(), was.byte_strides()) };
    view.ok().flatten().filter(|view| was.is_of(view))
}

/// The interface that rust-numpy and this extension share, set by the first borrow of an array.
static INTERFACE: PyOnceLock<&'static Interface> = PyOnceLock::new();

impl Interface {
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
        shared.note_alone(ptr::eq(interface.flags.cast(), shared));
        Ok(interface)
    }

    fn find_or_offer(py: Python<'_>, shared: &'static Shared) -> PyResult<&'static Self> {
        let module = Numpy::module(py)?;
        let namespace = attr(&module, "__dict__")?;
        let ours = Box::leak(Box::new(Self {
            version: 1,
            flags: ptr::from_ref(shared).cast_mut().cast(),
            acquire: acquire_here,
            acquire_mut: acquire_mut_here,
            release: release_here,
            release_mut: release_mut_here,
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

/// Functions of NumPy itself, regardless of what subclasses override.
struct Numpy {
    getitem: Py<PyAny>,
    itemsize: Py<PyAny>,
}

impl Numpy {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static NUMPY: PyOnceLock<Numpy> = PyOnceLock::new();
        once(&NUMPY, py, || {
            let array = api::class(py)?
                .ok_or_else(|| PyImportError::new_err("NumPy's class of arrays is not loaded"))?;
            let getitem = attr(&array, "__getitem__")?.unbind();
            let itemsize = attr(&attr(&array, "itemsize")?, "__get__")?.unbind();
            Ok(Self { getitem, itemsize })
        })
    }

    /// The module that rust-numpy uses; NumPy 2 renamed it.
    fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
        let version: String = attr(py.import("numpy")?.as_any(), "__version__")?.extract()?;
        let old = version.starts_with("0.") || version.starts_with("1.");
        py.import(if old { "numpy.core.multiarray" } else { "numpy._core.multiarray" })
    }

    /// Another array over the same elements.
    fn view<'py>(&self, array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = array.py();
        // SAFETY: the thread is attached, and `Py_Ellipsis` returns a borrowed reference to a singleton.
        let all = unsafe { Bound::from_borrowed_ptr(py, ffi::Py_Ellipsis()) };
        self.getitem.bind(py).call1((array, all))
    }

    fn itemsize(&self, array: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.itemsize.bind(array.py()).call1((array,))?.extract()
    }
}

/// Hashes an address. No other program chooses addresses, so this need not resist an attack.
type ByAddress = BuildHasherDefault<Scattered>;

#[derive(Default)]
struct Scattered(u64);

impl Hasher for Scattered {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_usize(byte.into()));
    }

    fn write_usize(&mut self, number: usize) {
        /// 2^64 divided by the golden ratio. The rotation brings the best bits to both ends, which the table uses.
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        self.0 = (self.0 ^ number as u64).wrapping_mul(GOLDEN).rotate_left(32);
    }
}

/// A borrow that an extension built on rust-numpy holds in our registry: the geometry of the array, the mode and the
/// ticket.
pub(crate) struct Recorded {
    data: usize,
    axes: Axes,
    mode: Mode,
    ticket: usize,
}

/// Borrows the bytes of an array.
///
/// # Safety
/// The rules of [`Interface`]; `flags` is a [`Shared`].
unsafe fn borrow(flags: *mut c_void, array: *mut ffi::PyObject, mode: Mode) -> c_int {
    let acquire = || -> PyResult<c_int> {
        // SAFETY: Interface: the caller is attached.
        let py = unsafe { Python::assume_attached() };
        // SAFETY: `flags` is a `Shared` (this function's contract), which lives as long as the process.
        let shared = unsafe { &*flags.cast_const().cast::<Shared>() };
        // SAFETY: Interface: `array` is a NumPy array.
        let (data, flags, axes) = unsafe {
            let head = Head::of(array);
            ((*head).data.addr(), (*head).flags, Axes::of(array))
        };
        if mode == Mode::Write && flags & WRITEABLE == 0 {
            return Ok(NOT_WRITEABLE);
        }
        // SAFETY: `array` is a valid Python object, and `from_borrowed_ptr` takes a new reference.
        let object = unsafe { Bound::from_borrowed_ptr(py, array) };
        let (shape, strides) = axes.numbers();
        let geometry = Geometry::of(&object);
        let item = match &geometry {
            Some(geometry) => geometry.itemsize,
            None => Numpy::get(py)?.itemsize(&object)?,
        };
        let bytes = match geometry.is_some_and(|geometry| geometry.is_run()) {
            true => {
                let count = shape.iter().product::<i64>() as usize;
                Bytes { address: data, item: count * item, shape: &[], strides: Numbers::None }
            }
            false => Bytes { address: data, item, shape, strides: Numbers::of(strides) },
        };
        let Ok(ticket) = shared.acquire(&bytes, mode, "numpy.ndarray") else {
            return Ok(IN_THE_WAY);
        };
        let mut recorded = RECORDED.lock();
        recorded.entry(array.addr()).or_default().push(Recorded { data, axes, mode, ticket });
        Ok(GRANTED)
    };
    // A panic must not cross into another extension.
    match panic::catch_unwind(AssertUnwindSafe(acquire)) {
        Ok(Ok(answer)) => answer,
        _ => IN_THE_WAY,
    }
}

/// The extents and the byte strides of an array.
#[derive(PartialEq)]
enum Axes {
    Few(usize, [[i64; FEW]; 2]),
    Many(Vec<i64>, Vec<i64>),
}

/// Most arrays have at most this many dimensions.
const FEW: usize = 4;

impl Axes {
    /// # Safety
    /// The rules of [`Interface`].
    unsafe fn of(array: *const ffi::PyObject) -> Self {
        // SAFETY: Interface: a NumPy array.
        let (ndim, extents, strides) = unsafe {
            let head = Head::of(array);
            ((*head).ndim, (*head).dimensions, (*head).strides)
        };
        let ndim = usize::try_from(ndim).unwrap_or(0);
        let numbers = |first: *const isize| {
            // SAFETY: Interface: a NumPy array has `ndim` extents and `ndim` strides.
            (0..ndim).map(move |axis| unsafe { first.add(axis).read() } as i64)
        };
        if ndim > FEW {
            return Self::Many(numbers(extents).collect(), numbers(strides).collect());
        }
        let mut few = [[0; FEW]; 2];
        for (to, from) in few.iter_mut().zip([extents, strides]) {
            to.iter_mut().zip(numbers(from)).for_each(|(to, from)| *to = from);
        }
        Self::Few(ndim, few)
    }

    fn numbers(&self) -> (&[i64], &[i64]) {
        match self {
            Self::Few(ndim, [extents, strides]) => (&extents[..*ndim], &strides[..*ndim]),
            Self::Many(extents, strides) => (extents, strides),
        }
    }
}

/// Ends a borrow of an array: the one with the array's present geometry, if there are several.
///
/// # Safety
/// The rules of [`Interface`]; `flags` is a [`Shared`].
unsafe fn give_back(flags: *mut c_void, array: *mut ffi::PyObject, mode: Mode) {
    let release = || {
        // SAFETY: `flags` is a `Shared` (this function's contract), which lives as long as the process.
        let shared = unsafe { &*flags.cast_const().cast::<Shared>() };
        // SAFETY: Interface: `array` is a NumPy array.
        let (data, now) = unsafe { ((*Head::of(array)).data.addr(), Axes::of(array)) };
        let mut recorded = RECORDED.lock();
        let Place::Occupied(mut of_array) = recorded.entry(array.addr()) else { return };
        let borrows = of_array.get_mut();
        let same =
            |borrow: &Recorded| (borrow.data, borrow.mode) == (data, mode) && borrow.axes == now;
        let place = borrows.iter().rposition(same);
        let place = place.or_else(|| borrows.iter().position(|borrow| borrow.mode == mode));
        let ticket = place.map(|place| borrows.swap_remove(place).ticket);
        if borrows.is_empty() {
            of_array.remove();
        }
        drop(recorded);
        if let Some(ticket) = ticket {
            shared.release(ticket);
        }
    };
    // A panic must not cross into another extension. The list is consistent at any time.
    let _ = panic::catch_unwind(AssertUnwindSafe(release));
}

unsafe extern "C" fn acquire_here(flags: *mut c_void, array: *mut ffi::PyObject) -> c_int {
    // SAFETY: rust-numpy calls this by Interface, with the `flags` that `of_process` set: a `Shared`.
    unsafe { borrow(flags, array, Mode::Read) }
}

unsafe extern "C" fn acquire_mut_here(flags: *mut c_void, array: *mut ffi::PyObject) -> c_int {
    // SAFETY: rust-numpy calls this by Interface, with the `flags` that `of_process` set: a `Shared`.
    unsafe { borrow(flags, array, Mode::Write) }
}

unsafe extern "C" fn release_here(flags: *mut c_void, array: *mut ffi::PyObject) {
    // SAFETY: rust-numpy calls this by Interface, with the `flags` that `of_process` set: a `Shared`.
    unsafe { give_back(flags, array, Mode::Read) }
}

unsafe extern "C" fn release_mut_here(flags: *mut c_void, array: *mut ffi::PyObject) {
    // SAFETY: rust-numpy calls this by Interface, with the `flags` that `of_process` set: a `Shared`.
    unsafe { give_back(flags, array, Mode::Write) }
}
