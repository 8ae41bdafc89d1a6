//! The registry of the process: that of the first extension which needs one, for all others to use.
//!
//! Extensions are compiled apart, so they meet in a capsule of the interpreter's dictionary, whose
//! struct is never changed but by additions at its end.

use std::ffi::{CStr, c_int, c_void};
use std::num::NonZeroUsize;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use dlbridge_borrow::{Held, LabelWords, Mode, Region, Registry, Ticket};
use dlbridge_fork::ForkLock;
use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use super::bytes::Bytes;

/// The name of the capsule and its key in the interpreter's dictionary.
const NAME: &CStr = c"dlbridge.borrow.2";

/// The borrows that this extension keeps, for all others if it was first.
///
/// A child keeps the borrows of its parent. Objects that hold them are in its memory too, and return them there. A borrow of a thread that
/// the child lacks is never returned there: the child keeps refusing memory that such a thread was writing, because it may be half written.
static REGISTRY: ForkLock<Registry, Held<'static>> =
    ForkLock::of(Registry::new(), Registry::hold, Held::release_in_child);

/// What all extensions of this process share, once this extension has found it.
static SHARED: OnceLock<&'static Shared> = OnceLock::new();

/// True once all borrows of NumPy's arrays in this process are known to be in [`REGISTRY`].
static ALONE: AtomicBool = AtomicBool::new(false);

/// What extensions share: a registry and the functions of the extension that it belongs to.
///
/// - **Shared.** `registry` is what the functions are called with; all of it lives as long as the
///   process, and the functions can be called on any thread. A text is never longer than a `Conflict`
///   has room for.
#[repr(C)]
pub(crate) struct Shared {
    /// Of this struct: 1.
    version: u32,
    /// Its bytes: what an older extension offered ends earlier.
    size: usize,
    registry: *const c_void,
    acquire: unsafe extern "C" fn(
        registry: *const c_void,
        view: *const View,
        mode: c_int,
        label: *const u8,
        label_len: usize,
        ticket: *mut usize,
        conflict: *mut Conflict,
    ) -> c_int,
    release: unsafe extern "C" fn(registry: *const c_void, ticket: usize),
}

/// The first fields of a [`Shared`].
#[repr(C)]
struct Start {
    version: u32,
    size: usize,
}

// SAFETY: Shared.
unsafe impl Send for Shared {}
// SAFETY: Shared.
unsafe impl Sync for Shared {}

/// The bytes of a strided view.
#[repr(C)]
struct View {
    address: usize,
    item: usize,
    ndim: usize,
    shape: *const i64,
    byte_strides: *const i64,
}

/// The borrow that is in the way.
#[repr(C)]
struct Conflict {
    mode: c_int,
    start: usize,
    end: usize,
    label_len: usize,
    label: [u8; LABEL],
}

const LABEL: usize = 64;
const READ: c_int = 0;
const WRITE: c_int = 1;

/// What `acquire` returns.
const GRANTED: c_int = 0;
const IN_THE_WAY: c_int = 1;

/// The borrow that is in the way of another, which is `asked` for.
pub(super) struct InTheWay {
    pub(super) mode: Mode,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) label: String,
    pub(super) asked: Region,
}

static OURS: Shared = Shared {
    version: 1,
    size: size_of::<Shared>(),
    registry: ptr::from_ref(REGISTRY.get()).cast(),
    acquire: acquire_here,
    release: release_here,
};

impl Shared {
    /// What the extensions of this process share.
    pub(super) fn of_process(py: Python<'_>) -> PyResult<&'static Self> {
        match Self::known() {
            Some(shared) => Ok(shared),
            None => {
                REGISTRY.listed();
                let found = Self::find_or_offer(py)?;
                // Every thread that looks finds the same.
                let _ = SHARED.set(found);
                Ok(found)
            }
        }
    }

    /// What the extensions of this process share, if something was borrowed before.
    #[inline]
    pub(super) fn known() -> Option<&'static Self> {
        SHARED.get().copied()
    }

    fn find_or_offer(py: Python<'_>) -> PyResult<&'static Self> {
        // SAFETY: attached, so there is an interpreter; its dictionary is borrowed, or NULL.
        let dictionary = unsafe {
            let dictionary = ffi::PyInterpreterState_GetDict(ffi::PyInterpreterState_Get());
            Bound::from_borrowed_ptr_or_opt(py, dictionary)
        };
        let dictionary = dictionary.and_then(|dictionary| dictionary.cast_into::<PyDict>().ok());
        let dictionary = dictionary.ok_or_else(|| {
            PyImportError::new_err("the interpreter has no dictionary for its extensions")
        })?;
        // SAFETY: a static, under the name that says what it is.
        let ours = unsafe {
            let pointer = NonNull::from(&OURS).cast();
            PyCapsule::new_with_pointer(py, pointer, NAME)
        }?;
        // In one step, since another extension may be about to do the same.
        let key = intern!(py, "dlbridge.borrow.2");
        let found = dictionary.call_method1(intern!(py, "setdefault"), (key, ours))?;
        let pointer = found.cast_into::<PyCapsule>()?.pointer_checked(Some(NAME))?;
        // Not all of it, which an older extension may lack.
        let start: NonNull<Start> = pointer.cast();
        // SAFETY: as the name says, a `Shared`, which begins like this in all versions.
        let Start { version, size } = unsafe { start.read() };
        if version < 1 || size < size_of::<Self>() {
            return Err(PyImportError::new_err(format!(
                "another extension built on dlbridge shares borrows by version {version} of {size} bytes, \
                 which is older than this extension knows; build it anew"
            )));
        }
        // SAFETY: Shared, as name, version and size say.
        Ok(unsafe { pointer.cast().as_ref() })
    }

    /// Notes if all borrows of NumPy's arrays are in this extension's registry: it is the one that all extensions share, and
    /// those that use rust-numpy too.
    pub(super) fn note_alone(&'static self, is_rust_numpys: bool) {
        if is_rust_numpys && ptr::eq(self, &OURS) {
            // Neither ever changes. Who sees this sees `SHARED` too, and so gives back what it borrows.
            ALONE.store(true, Release);
        }
    }

    /// Borrows a run of bytes of an array of NumPy to read; `None` if that takes more than this extension's registry, or is not
    /// to be decided without a lock. The number is one more than the ticket's.
    #[inline(always)]
    pub(super) fn read_alone(
        address: usize,
        count: usize,
        label: &LabelWords,
    ) -> Option<NonZeroUsize> {
        match ALONE.load(Acquire) {
            true => OURS.read_here(address, count, label),
            false => None,
        }
    }

    /// Borrows a run of bytes to read; `None` if the registry is another extension's, or if that is not to be decided without a
    /// lock. The number is one more than the ticket's.
    #[inline(never)]
    pub(super) fn read_here(
        &self,
        address: usize,
        count: usize,
        label: &LabelWords,
    ) -> Option<NonZeroUsize> {
        if !ptr::eq(self, &OURS) {
            return None;
        }
        let ticket = REGISTRY.get().read(address, count, label)?;
        NonZeroUsize::new(ticket.number() + 1)
    }

    #[inline]
    pub(super) fn acquire(
        &self,
        bytes: &Bytes<'_>,
        mode: Mode,
        label: &str,
    ) -> Result<usize, Box<InTheWay>> {
        // Where the registry is this extension's, which it is in most processes, no C is between.
        if ptr::eq(self, &OURS) {
            let granted = match bytes.shape {
                // A run of bytes needs no lock, and here the compiler sees that it is one.
                [] => REGISTRY.get().acquire(Region::bytes(bytes.address, bytes.item), mode, label),
                _ => REGISTRY.get().acquire(bytes.region(), mode, label),
            };
            return match granted {
                Ok(ticket) => Ok(ticket.number()),
                Err(held) => Err(Box::new(InTheWay {
                    mode: held.mode,
                    start: held.region.start(),
                    end: held.region.end(),
                    label: held.label.to_string(),
                    asked: bytes.region(),
                })),
            };
        }
        self.acquire_shared(bytes, mode, label)
    }

    /// As [`acquire`](Self::acquire), in another extension's registry.
    #[inline(never)]
    fn acquire_shared(
        &self,
        bytes: &Bytes<'_>,
        mode: Mode,
        label: &str,
    ) -> Result<usize, Box<InTheWay>> {
        let view = View {
            address: bytes.address,
            item: bytes.item,
            ndim: bytes.shape.len(),
            shape: bytes.shape.as_ptr(),
            byte_strides: bytes.strides().as_ptr(),
        };
        let mut ticket = 0;
        let mut conflict =
            Conflict { mode: READ, start: 0, end: 0, label_len: 0, label: [0; LABEL] };
        let mode = if mode == Mode::Write { WRITE } else { READ };
        // SAFETY: Shared; a view of so many dimensions, a text, and places to write to.
        let answer = unsafe {
            let (text, len) = (label.as_ptr(), label.len());
            (self.acquire)(self.registry, &view, mode, text, len, &mut ticket, &mut conflict)
        };
        if answer == GRANTED {
            return Ok(ticket);
        }
        let text = &conflict.label[..conflict.label_len.min(LABEL)];
        Err(Box::new(InTheWay {
            mode: if conflict.mode == WRITE { Mode::Write } else { Mode::Read },
            start: conflict.start,
            end: conflict.end,
            label: String::from_utf8_lossy(text).into_owned(),
            asked: bytes.region(),
        }))
    }

    #[inline]
    pub(super) fn release(&self, ticket: usize) {
        if ptr::eq(self, &OURS) {
            return REGISTRY.get().release(Ticket::from_number(ticket));
        }
        // SAFETY: Shared; a ticket that was granted, given back once.
        unsafe { (self.release)(self.registry, ticket) }
    }
}

/// # Safety
/// As [`Shared`] says; `registry` is a [`Registry`].
unsafe extern "C" fn acquire_here(
    registry: *const c_void,
    view: *const View,
    mode: c_int,
    label: *const u8,
    label_len: usize,
    ticket: *mut usize,
    conflict: *mut Conflict,
) -> c_int {
    let acquire = || {
        // SAFETY: this function's contract.
        let (registry, view) = unsafe { (&*registry.cast::<Registry>(), &*view) };
        // SAFETY: so many extents, strides and bytes.
        let (shape, strides, label) = unsafe {
            (
                elements(view.shape, view.ndim),
                elements(view.byte_strides, view.ndim),
                elements(label, label_len),
            )
        };
        let region = match shape {
            [] => Region::bytes(view.address, view.item),
            _ => Region::new(view.address, view.item, shape, strides),
        };
        let mode = if mode == WRITE { Mode::Write } else { Mode::Read };
        registry.acquire(region, mode, label)
    };
    // A panic must not cross into another extension; there is nothing here that a panic would break.
    match panic::catch_unwind(AssertUnwindSafe(acquire)) {
        Ok(Ok(granted)) => {
            // SAFETY: a place to write to.
            unsafe { ticket.write(granted.number()) };
            GRANTED
        }
        Ok(Err(held)) => {
            let text = held.label.as_str().as_bytes();
            let mut label = [0; LABEL];
            let len = text.len().min(LABEL);
            label[..len].copy_from_slice(&text[..len]);
            let mode = if held.mode == Mode::Write { WRITE } else { READ };
            let (start, end) = (held.region.start(), held.region.end());
            // SAFETY: a place to write to.
            unsafe { conflict.write(Conflict { mode, start, end, label_len: len, label }) };
            IN_THE_WAY
        }
        Err(_) => IN_THE_WAY,
    }
}

/// # Safety
/// As [`Shared`] says; `registry` is a [`Registry`].
unsafe extern "C" fn release_here(registry: *const c_void, ticket: usize) {
    // SAFETY: this function's contract.
    let registry = unsafe { &*registry.cast::<Registry>() };
    let release = || registry.release(Ticket::from_number(ticket));
    // A wrong ticket is refused before anything changes.
    let _ = panic::catch_unwind(AssertUnwindSafe(release));
}

/// # Safety
/// So many elements, which nobody writes meanwhile; of none, the address does not matter.
unsafe fn elements<'a, T>(first: *const T, count: usize) -> &'a [T] {
    match count {
        0 => &[],
        // SAFETY: this function's contract.
        _ => unsafe { slice::from_raw_parts(first, count) },
    }
}
