//! rust-numpy's registry of borrows, for arrays of NumPy.
//!
//! Extensions that use rust-numpy meet in a capsule too, which the first of them puts into a module of
//! NumPy. If there is one when dlbridge first borrows an array, both are asked; otherwise dlbridge puts
//! its own registry there, and they ask that.
//!
//! Source: `borrow/shared.rs` of numpy 0.30 on crates.io, version 1 of its interface.

use std::ffi::{CStr, c_int, c_void};
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};
use std::slice;

use dlbridge_borrow::Mode;
use dlbridge_fork::ForkMutex;
use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCapsule;

use super::bytes::{Bytes, Numbers};
use super::shared::Shared;
use crate::error::ErrorClass;
use crate::interpreter::while_it_lives;
use crate::numpy::api::{self, NumpyApi, WRITEABLE};
use crate::numpy::array::{Geometry, Head, NumpyArray};
use crate::once::once;
use crate::pending::keeping_pending;

/// The name of the capsule, and of the attribute of the module.
const NAME: &CStr = c"_RUST_NUMPY_BORROW_CHECKING_API";

/// The borrows of extensions that use rust-numpy in our registry. Only threads that are attached take it.
static LENT: ForkMutex<Vec<Lent>> = ForkMutex::new(Vec::new());

/// What rust-numpy shares between extensions.
///
/// - **Interface.** The functions are called attached, with `flags` and an array of NumPy, and `release` as
///   often as `acquire` said 0. All of it lives as long as the process.
#[repr(C)]
struct Interface {
    version: u64,
    flags: *mut c_void,
    acquire: unsafe extern "C" fn(*mut c_void, *mut Head) -> c_int,
    acquire_mut: unsafe extern "C" fn(*mut c_void, *mut Head) -> c_int,
    release: unsafe extern "C" fn(*mut c_void, *mut Head),
    release_mut: unsafe extern "C" fn(*mut c_void, *mut Head),
}

// SAFETY: Interface: it is not written, and its functions are called attached.
unsafe impl Send for Interface {}
// SAFETY: as above.
unsafe impl Sync for Interface {}

/// What the functions say.
const GRANTED: c_int = 0;
const IN_THE_WAY: c_int = -1;
const NOT_WRITEABLE: c_int = -2;

/// An entry in a registry that is rust-numpy's own.
#[derive(Clone, Copy)]
struct Entry {
    interface: &'static Interface,
    mode: Mode,
    /// Where the elements of the array were; `None` for a view that only this borrow has.
    place: Option<Geometry>,
}

/// A borrow in a registry that is rust-numpy's own, given back on a thread that is attached.
pub(crate) struct AttachedBorrow<'py> {
    entry: Entry,
    array: Option<Bound<'py, PyAny>>,
    /// The object that kept the elements of the array, if that was another one. `__setstate__` takes it from the array.
    base: Option<Bound<'py, PyAny>>,
}

/// A borrow in a registry that is rust-numpy's own, given back on any thread.
pub(crate) struct NumpyBorrow {
    entry: Entry,
    array: Option<Py<PyAny>>,
    base: Option<Py<PyAny>>,
}

/// Whether rust-numpy uses our registry, as far as is known.
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
    /// Borrows an array of NumPy's own class; `None` if that is refused, or if [`acquire`](Self::acquire) must be called.
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
        // Written where it stays, since moving it costs more than reading the array.
        let place = borrow.entry.place.insert(Geometry::EMPTY);
        if !NumpyArray::read_geometry(object, place) || interface.borrow(object, mode) != GRANTED {
            return None;
        }
        borrow.array = Some(object.clone());
        borrow.base = NumpyArray::base(object);
        Some(borrow)
    }

    /// Borrows an array of NumPy; `None` if rust-numpy uses our registry.
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
        let place = NumpyArray::geometry(object);
        // Otherwise a view that only this borrow has, so that no code can reshape it until it is given back.
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

    /// The same borrow, to be given back on any thread.
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
        // Without an interpreter there is no reference to give back.
        std::mem::forget(kept);
    }
}

impl Entry {
    /// Gives the borrow back, by the array that was borrowed or by a view of its elements as it was, if it has changed since. The
    /// view has the same base. If the array owned its elements and has others now, no array leads to the borrow any more: then the
    /// memory stays borrowed, because rust-numpy ends the process when a borrow is given back that it does not find.
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

/// A view of the elements that an array had, with a base that kept them; `None` if they have another owner now.
#[cold]
fn view_as_it_was<'py>(base: &Bound<'py, PyAny>, was: &Geometry) -> Option<Bound<'py, PyAny>> {
    let api = NumpyApi::known(base.py())?;
    // SAFETY: a registry of rust-numpy computes with the addresses of elements alone, and nothing else gets the view.
    let view =
        unsafe { api.view_as_it_was(base, was.descr, was.data, was.extents(), was.byte_strides()) };
    view.ok().flatten().filter(|view| was.is_of(view))
}

/// What rust-numpy and this extension share, once an array was borrowed.
static INTERFACE: PyOnceLock<&'static Interface> = PyOnceLock::new();

impl Interface {
    /// Asks for a borrow of an array.
    #[inline]
    fn borrow(&self, array: &Bound<'_, PyAny>, mode: Mode) -> c_int {
        let array = array.as_ptr().cast();
        // SAFETY: Interface; attached, an array.
        unsafe {
            match mode {
                Mode::Read => (self.acquire)(self.flags, array),
                Mode::Write => (self.acquire_mut)(self.flags, array),
            }
        }
    }

    /// Gives a borrow of an array back, which was granted and is given back once.
    fn give_back(&self, array: &Bound<'_, PyAny>, mode: Mode) {
        let array = array.as_ptr().cast();
        // SAFETY: Interface; attached, an array whose elements are where those of the borrowed one were.
        unsafe {
            match mode {
                Mode::Read => (self.release)(self.flags, array),
                Mode::Write => (self.release_mut)(self.flags, array),
            }
        }
    }

    /// What the extensions of this process share; NumPy is imported.
    fn of_process(py: Python<'_>, shared: &'static Shared) -> PyResult<&'static Self> {
        let interface = *once(&INTERFACE, py, || Self::find_or_offer(py, shared))?;
        shared.note_alone(ptr::eq(interface.flags.cast(), shared));
        Ok(interface)
    }

    fn find_or_offer(py: Python<'_>, shared: &'static Shared) -> PyResult<&'static Self> {
        let module = Numpy::module(py)?;
        let namespace = module.getattr(intern!(py, "__dict__"))?;
        let ours = Box::leak(Box::new(Self {
            version: 1,
            flags: ptr::from_ref(shared).cast_mut().cast(),
            acquire: acquire_here,
            acquire_mut: acquire_mut_here,
            release: release_here,
            release_mut: release_mut_here,
        }));
        // SAFETY: it lives as long as the process, under the name that says what it is.
        let ours = unsafe { PyCapsule::new_with_pointer(py, NonNull::from(ours).cast(), NAME) }?;
        let key = NAME.to_str().unwrap_or_default();
        let found = namespace.call_method1(intern!(py, "setdefault"), (key, ours))?;
        let pointer = found.cast_into::<PyCapsule>()?.pointer_checked(Some(NAME))?;
        // SAFETY: as the name says, an interface of rust-numpy, which begins with its version.
        let version = unsafe { pointer.cast::<u64>().read() };
        if version < 1 {
            return Err(PyImportError::new_err(format!(
                "an extension built on rust-numpy shares borrows by version {version} of its interface; \
                 dlbridge needs version 1 or later: build that extension anew"
            )));
        }
        // SAFETY: Interface, as name and version say; fields are only ever added.
        Ok(unsafe { pointer.cast().as_ref() })
    }
}

/// What is needed of NumPy, whatever classes derived from its array say of themselves.
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
            let getitem = array.getattr(intern!(py, "__getitem__"))?.unbind();
            let itemsize = array.getattr(intern!(py, "itemsize"))?;
            let itemsize = itemsize.getattr(intern!(py, "__get__"))?.unbind();
            Ok(Self { getitem, itemsize })
        })
    }

    /// The module that rust-numpy uses: version 2 of NumPy renamed it.
    fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
        let version: String = py.import("numpy")?.getattr(intern!(py, "__version__"))?.extract()?;
        let old = version.starts_with("0.") || version.starts_with("1.");
        py.import(if old { "numpy.core.multiarray" } else { "numpy._core.multiarray" })
    }

    /// Another array over the same elements.
    fn view<'py>(&self, array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = array.py();
        // SAFETY: attached.
        let all = unsafe { Bound::from_borrowed_ptr(py, ffi::Py_Ellipsis()) };
        self.getitem.bind(py).call1((array, all))
    }

    fn itemsize(&self, array: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.itemsize.bind(array.py()).call1((array,))?.extract()
    }
}

/// A borrow that an extension built on rust-numpy holds in our registry: the array as it was, what for,
/// and the ticket.
pub(crate) struct Lent {
    array: usize,
    data: usize,
    axes: Axes,
    mode: Mode,
    ticket: usize,
}

/// Borrows the bytes of an array.
///
/// # Safety
/// As [`Interface`] says; `flags` is a [`Shared`].
unsafe fn borrow(flags: *mut c_void, array: *mut Head, mode: Mode) -> c_int {
    let acquire = || -> PyResult<c_int> {
        // SAFETY: called attached.
        let py = unsafe { Python::assume_attached() };
        // SAFETY: a `Shared` that stays.
        let shared = unsafe { &*flags.cast_const().cast::<Shared>() };
        // SAFETY: an array. No reference to it is left when its count of references is written.
        let (data, flags, axes) =
            unsafe { ((*array).data.addr(), (*array).flags, Axes::of(&*array)) };
        if mode == Mode::Write && flags & WRITEABLE == 0 {
            return Ok(NOT_WRITEABLE);
        }
        // SAFETY: an object.
        let object = unsafe { Bound::from_borrowed_ptr(py, array.cast()) };
        let (shape, strides) = axes.numbers();
        let geometry = NumpyArray::geometry(&object);
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
        let mut lent = LENT.lock();
        lent.push(Lent { array: array.addr(), data, axes, mode, ticket });
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

/// The dimensions of most arrays, at most.
const FEW: usize = 4;

impl Axes {
    /// # Safety
    /// As [`Interface`] says.
    unsafe fn of(head: &Head) -> Self {
        let ndim = usize::try_from(head.ndim).unwrap_or(0);
        let numbers = |first: *const isize| match ndim {
            0 => &[][..],
            // SAFETY: an array has that many of each.
            _ => unsafe { slice::from_raw_parts(first, ndim) },
        };
        let (extents, strides) = (numbers(head.dimensions), numbers(head.strides));
        if ndim > FEW {
            let many = |numbers: &[isize]| numbers.iter().map(|&n| n as i64).collect();
            return Self::Many(many(extents), many(strides));
        }
        let mut few = [[0; FEW]; 2];
        for (to, from) in few.iter_mut().zip([extents, strides]) {
            to.iter_mut().zip(from).for_each(|(to, &from)| *to = from as i64);
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

/// Gives a borrow of an array back: the one of the array as it is now, if there are several.
///
/// # Safety
/// As [`Interface`] says; `flags` is a [`Shared`].
unsafe fn give_back(flags: *mut c_void, array: *mut Head, mode: Mode) {
    let release = || {
        // SAFETY: a `Shared` that stays.
        let shared = unsafe { &*flags.cast_const().cast::<Shared>() };
        // SAFETY: an array.
        let (data, now) = unsafe { ((*array).data.addr(), Axes::of(&*array)) };
        let mut lent = LENT.lock();
        let of_array = |lent: &Lent| (lent.array, lent.mode) == (array.addr(), mode);
        let same = lent.iter().position(|l| of_array(l) && l.data == data && l.axes == now);
        let place = same.or_else(|| lent.iter().position(of_array));
        let ticket = place.map(|place| lent.swap_remove(place).ticket);
        drop(lent);
        if let Some(ticket) = ticket {
            shared.release(ticket);
        }
    };
    // A panic must not cross into another extension. The list is right at any time.
    let _ = panic::catch_unwind(AssertUnwindSafe(release));
}

unsafe extern "C" fn acquire_here(flags: *mut c_void, array: *mut Head) -> c_int {
    // SAFETY: Interface.
    unsafe { borrow(flags, array, Mode::Read) }
}

unsafe extern "C" fn acquire_mut_here(flags: *mut c_void, array: *mut Head) -> c_int {
    // SAFETY: Interface.
    unsafe { borrow(flags, array, Mode::Write) }
}

unsafe extern "C" fn release_here(flags: *mut c_void, array: *mut Head) {
    // SAFETY: Interface.
    unsafe { give_back(flags, array, Mode::Read) }
}

unsafe extern "C" fn release_mut_here(flags: *mut c_void, array: *mut Head) {
    // SAFETY: Interface.
    unsafe { give_back(flags, array, Mode::Write) }
}
