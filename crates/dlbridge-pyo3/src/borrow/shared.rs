//! The registry of the process: all extensions use the registry of the first one that needs it.
//!
//! Extensions are compiled separately, so they share a capsule in the interpreter's dictionary. Later versions only
//! add fields at the end of its struct.

use std::ffi::{CStr, c_int, c_void};
use std::num::NonZeroUsize;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use dlbridge::fork::ForkLock;
use dlbridge_borrow::{Conflict, Held, Label, Mode, Region, Registry};
use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

/// The name of the capsule, and its key in the interpreter's dictionary.
const NAME: &CStr = c"dlbridge.borrow.3";

/// This extension's registry, which all others use if it was first.
///
/// A forked child keeps the borrows of its parent. Objects that hold them are in its memory too, and release them
/// there. A borrow of a thread that the child lacks is never released there: the child keeps refusing memory that
/// such a thread was writing, because it may be half written.
static REGISTRY: ForkLock<Registry, Held<'static>> =
    ForkLock::of(Registry::new(), Registry::hold, Held::release_in_child);

/// The registry that all extensions share, once this extension has found it.
static SHARED: OnceLock<&'static Shared> = OnceLock::new();

/// True once all borrows of NumPy arrays in this process are known to be in [`REGISTRY`].
static ALONE: AtomicBool = AtomicBool::new(false);

/// The struct that extensions share: a registry, and the functions of the extension that owns it.
///
/// - **Shared.** `registry` is the first argument of both functions. The struct, the registry and the functions live
///   as long as the process, and any thread may call the functions. The caller of `acquire` passes a `View` of `count`
///   axes, `label_len` bytes of text, and places for a ticket and a conflict; no thread writes
///   them during the call. A label never exceeds the array in `Found`. A ticket is never 0. `release` gets a ticket
///   that `acquire` granted, once.
#[repr(C)]
pub(crate) struct Shared {
    /// The version of this struct: 1.
    version: u32,
    /// Its size in bytes; that of an older extension is smaller.
    size: usize,
    registry: *const c_void,
    acquire: unsafe extern "C" fn(
        registry: *const c_void,
        view: *const View,
        mode: c_int,
        label: *const u8,
        label_len: usize,
        ticket: *mut usize,
        found: *mut Found,
    ) -> c_int,
    release: unsafe extern "C" fn(registry: *const c_void, ticket: usize),
}

// SAFETY: Shared: the struct is never written, and any thread may call its functions.
unsafe impl Send for Shared {}
// SAFETY: Shared: the struct is never written, and any thread may call its functions.
unsafe impl Sync for Shared {}

/// The bytes of a [`Region`].
#[repr(C)]
struct View {
    start: usize,
    run: usize,
    axes: *const [u64; 2],
    count: usize,
}

/// The conflicting borrow.
#[repr(C)]
struct Found {
    mode: c_int,
    start: usize,
    end: usize,
    label_len: usize,
    label: [u8; Label::MAX],
}

const READ: c_int = 0;
const WRITE: c_int = 1;

/// The results of `acquire`.
const GRANTED: c_int = 0;
const IN_THE_WAY: c_int = 1;

static OURS: Shared = Shared {
    version: 1,
    size: size_of::<Shared>(),
    registry: ptr::from_ref(REGISTRY.get()).cast(),
    acquire: acquire_here,
    release: release_here,
};

impl Shared {
    /// The registry that the extensions of this process share.
    pub(super) fn of_process(py: Python<'_>) -> PyResult<&'static Self> {
        match Self::known() {
            Some(shared) => Ok(shared),
            None => {
                REGISTRY.listed();
                let found = Self::find_or_offer(py)?;
                // Every thread finds the same registry.
                let _ = SHARED.set(found);
                Ok(found)
            }
        }
    }

    /// The registry that the extensions of this process share, if something was borrowed before.
    #[inline]
    pub(super) fn known() -> Option<&'static Self> {
        SHARED.get().copied()
    }

    fn find_or_offer(py: Python<'_>) -> PyResult<&'static Self> {
        // SAFETY: attached, so the interpreter exists; its dictionary is a borrowed reference, or NULL.
        let dictionary = unsafe {
            let dictionary = ffi::PyInterpreterState_GetDict(ffi::PyInterpreterState_Get());
            Bound::from_borrowed_ptr_or_opt(py, dictionary)
        };
        let dictionary = dictionary.and_then(|dictionary| dictionary.cast_into::<PyDict>().ok());
        let dictionary = dictionary.ok_or_else(|| {
            PyImportError::new_err("the interpreter lacks a dictionary for its extensions")
        })?;
        // SAFETY: `OURS` is a static, and has the type that the name stands for.
        let ours = unsafe {
            let pointer = NonNull::from(&OURS).cast();
            PyCapsule::new_with_pointer(py, pointer, NAME)
        }?;
        // `setdefault` is one step: another extension may do the same at this moment.
        let key = intern!(py, "dlbridge.borrow.3");
        let found = dictionary.call_method1(intern!(py, "setdefault"), (key, ours))?;
        let pointer = found.cast_into::<PyCapsule>()?.pointer_checked(Some(NAME))?;
        let shared: *const Self = pointer.as_ptr().cast();
        // SAFETY: a capsule of this name holds a `Shared`, which begins with these fields in all versions. An older one
        // may lack the others, which this does not read.
        let (version, size) = unsafe { ((*shared).version, (*shared).size) };
        if version < 1 || size < size_of::<Self>() {
            return Err(PyImportError::new_err(format!(
                "another extension built on dlbridge shares borrows by version {version} of {size} bytes, \
                 which is too old for this extension; build the other one with a newer dlbridge"
            )));
        }
        // SAFETY: the name, version and size show that this is a whole `Shared`, which lives as long as the process.
        Ok(unsafe { &*shared })
    }

    /// Records that all borrows of NumPy arrays are in this extension's registry: it is the one that all extensions
    /// share, and those that use rust-numpy too.
    pub(super) fn note_alone(&'static self, is_rust_numpys: bool) {
        if is_rust_numpys && ptr::eq(self, &OURS) {
            // Neither fact ever changes. A thread that sees `ALONE` also sees `SHARED`, so it releases its borrows
            // there.
            ALONE.store(true, Release);
        }
    }

    /// Borrows the bytes of a contiguous NumPy array for reading; `None` if that needs another registry or a lock.
    #[inline(always)]
    pub(super) fn read_alone(address: usize, count: usize, label: &Label) -> Option<NonZeroUsize> {
        match ALONE.load(Acquire) {
            true => REGISTRY.get().read(address, count, label),
            false => None,
        }
    }

    /// Borrows the bytes of a region, and returns the ticket to release them with.
    #[inline(always)]
    pub(super) fn acquire(
        &self,
        bytes: Region,
        mode: Mode,
        label: &Label,
    ) -> Result<NonZeroUsize, Box<Conflict>> {
        // In most processes the registry is this extension's, and is called without the C interface.
        match ptr::eq(self, &OURS) {
            true => REGISTRY.get().acquire(bytes, mode, label),
            false => self.acquire_there(bytes, mode, label),
        }
    }

    /// As [`acquire`](Self::acquire), in another extension's registry.
    #[inline(never)]
    fn acquire_there(
        &self,
        bytes: Region,
        mode: Mode,
        label: &Label,
    ) -> Result<NonZeroUsize, Box<Conflict>> {
        let (start, run, axes) = (bytes.start(), bytes.run(), bytes.axes());
        let label = label.as_bytes();
        let view = View { start, run, axes: axes.as_ptr(), count: axes.len() };
        let mut ticket = 0;
        let mut found =
            Found { mode: READ, start: 0, end: 0, label_len: 0, label: [0; Label::MAX] };
        let mode = if mode == Mode::Write { WRITE } else { READ };
        // SAFETY: Shared: the view points at `count` axes, the label at `len` bytes, and both results are writable; all
        // outlive the call.
        let answer = unsafe {
            let (text, len) = (label.as_ptr(), label.len());
            (self.acquire)(self.registry, &view, mode, text, len, &mut ticket, &mut found)
        };
        if let (GRANTED, Some(ticket)) = (answer, NonZeroUsize::new(ticket)) {
            return Ok(ticket);
        }
        Err(Box::new(Conflict {
            label: Label::new(&found.label[..found.label_len.min(Label::MAX)]),
            mode: if found.mode == WRITE { Mode::Write } else { Mode::Read },
            region: Region::bytes(found.start, found.end.saturating_sub(found.start)),
        }))
    }

    #[inline]
    pub(super) fn release(&self, ticket: NonZeroUsize) {
        if ptr::eq(self, &OURS) {
            return REGISTRY.get().release(ticket);
        }
        // SAFETY: Shared: `acquire` granted this ticket, and the caller releases it once.
        unsafe { (self.release)(self.registry, ticket.get()) }
    }
}

/// # Safety
/// The rules of [`Shared`]; `registry` is a [`Registry`].
unsafe extern "C" fn acquire_here(
    registry: *const c_void,
    view: *const View,
    mode: c_int,
    label: *const u8,
    label_len: usize,
    ticket: *mut usize,
    found: *mut Found,
) -> c_int {
    let acquire = || {
        // SAFETY: `registry` is the `Registry` of `OURS`, a static; Shared: the caller's `View` is valid during the
        // call.
        let (registry, view) = unsafe { (&*registry.cast::<Registry>(), &*view) };
        // SAFETY: Shared: the view has `count` axes and the label `label_len` bytes, which no thread writes during the
        // call.
        let (axes, label) =
            unsafe { (elements(view.axes, view.count), elements(label, label_len)) };
        let mode = if mode == WRITE { Mode::Write } else { Mode::Read };
        registry.acquire(Region::from_axes(view.start, view.run, axes), mode, &Label::new(label))
    };
    // A panic must not cross into another extension, and leaves no broken state here.
    match panic::catch_unwind(AssertUnwindSafe(acquire)) {
        Ok(Ok(granted)) => {
            // SAFETY: Shared: the caller passes a place for a ticket.
            unsafe { ticket.write(granted.get()) };
            GRANTED
        }
        Ok(Err(held)) => {
            let text = held.label.as_bytes();
            let mut label = [0; Label::MAX];
            label[..text.len()].copy_from_slice(text);
            let mode = if held.mode == Mode::Write { WRITE } else { READ };
            let (start, end) = (held.region.start(), held.region.end());
            // SAFETY: Shared: the caller passes a place for a conflict.
            unsafe { found.write(Found { mode, start, end, label_len: text.len(), label }) };
            IN_THE_WAY
        }
        Err(_) => IN_THE_WAY,
    }
}

/// # Safety
/// The rules of [`Shared`]; `registry` is a [`Registry`].
unsafe extern "C" fn release_here(registry: *const c_void, ticket: usize) {
    // SAFETY: `registry` is the `Registry` of `OURS`, a static.
    let registry = unsafe { &*registry.cast::<Registry>() };
    let release = || NonZeroUsize::new(ticket).map(|ticket| registry.release(ticket));
    // The registry refuses a wrong ticket before it changes anything.
    let _ = panic::catch_unwind(AssertUnwindSafe(release));
}

/// # Safety
/// `first` points at `count` elements, which no thread writes during `'a`. If `count` is 0, the address may be
/// anything.
unsafe fn elements<'a, T>(first: *const T, count: usize) -> &'a [T] {
    match count {
        0 => &[],
        // SAFETY: `count` is not 0, so the caller promises that many elements, unchanged during `'a`.
        _ => unsafe { slice::from_raw_parts(first, count) },
    }
}
