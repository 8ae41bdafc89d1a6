//! All state that the threads of a process share, in one place, and its fate in a child after `fork`.
//!
//! A child has the memory of its parent and one thread, the one that forked. A lock that another thread held
//! would stay locked for ever. So:
//!
//! - **Fork.** A handler of `pthread_atfork`, which holds for forks by C code too, takes every lock of
//!   this file before a fork, and releases it in the parent and in the child. So no lock is held by a thread that the
//!   child lacks, and no state is half written. While one of these locks is held, no code takes another one, waits for the
//!   GIL, or forks. The macro that declares the locks also makes the handler's list of them, so none can be missing there.
//! - **Once.** Cells are written by [`once`] or `OnceLock::set`, attached and with a value that is ready. A Python process
//!   forks attached, so a child finds a cell empty or full. State that is found by threads which are not attached is an
//!   `AtomicPtr`, which is NULL or complete.
//!
//! A child keeps the borrows, exports and known types that are recorded here. Objects that hold borrows are in the child's memory
//! too, and return them there. A borrow of a thread that the child lacks is never returned in the child: the child keeps
//! refusing memory that such a thread was writing, because it may be half written.
//!
//! Not here: atomic numbers that need no lock (`copy` threads of the core), state of one thread, and
//! constants.

use std::collections::HashMap;
#[cfg(feature = "gpu")]
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dlbridge_borrow::Registry;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

use crate::borrow::{Lent, Shared};
use crate::gpu::{Buffer, Pending};
use crate::live::Exports;
use crate::protocol::Entry;

/// True while exports are recorded.
pub(crate) static RECORDING: AtomicBool = AtomicBool::new(false);

/// The borrows that this extension keeps, for all others if it was first.
pub(crate) static REGISTRY: Registry = Registry::new();

/// The state that all extensions of this process share, once this extension has found it.
pub(crate) static SHARED: OnceLock<&'static Shared> = OnceLock::new();

/// True once all borrows of NumPy's arrays in this process are known to be in [`REGISTRY`].
pub(crate) static ALONE: AtomicBool = AtomicBool::new(false);

/// Types whose objects are imported quickly, by the type's address, kept for ever. Imports of such objects are so
/// fast that a lock would cost much; a lookup here is one load and one comparison. If two types share a place, the
/// first one seen keeps it.
pub(crate) static KEPT_TYPES: [AtomicPtr<Entry>; 64] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; 64];

/// NumPy's array, with a place of its own.
pub(crate) static ARRAY_TYPE: AtomicPtr<Entry> = AtomicPtr::new(std::ptr::null_mut());

/// The drivers that were needed and could be used, each kept for ever. They are found by threads that are not attached too.
#[cfg(feature = "gpu")]
pub(crate) static CUDA: AtomicPtr<crate::gpu::Driver> = AtomicPtr::new(std::ptr::null_mut());
#[cfg(feature = "gpu")]
pub(crate) static ROCM: AtomicPtr<crate::gpu::Driver> = AtomicPtr::new(std::ptr::null_mut());

/// The contexts of CUDA's devices that are held, by the numbers of the devices; 0 for one that is not.
#[cfg(feature = "gpu")]
pub(crate) static CONTEXTS: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// The threads that are in [`import`]: their process in the upper half, their number in the lower.
static IMPORTS: AtomicU64 = AtomicU64::new(0);

/// Imports a module; `None` in a child that was forked while another thread was in here.
///
/// That thread holds a lock of Python's import system, which no thread of the child releases, so an import would wait for ever.
pub(crate) fn import<'py>(py: Python<'py>, name: &str) -> Option<PyResult<Bound<'py, PyModule>>> {
    const NUMBER: u64 = u32::MAX as u64;
    let process = u64::from(std::process::id()) << 32;
    let enter = |now| match now & NUMBER {
        0 => Some(process | 1),
        number if now == process | number => Some(now + 1),
        _ => None,
    };
    IMPORTS.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter).ok()?;
    let module = py.import(name);
    IMPORTS.fetch_sub(1, Ordering::AcqRel);
    Some(module)
}

/// Declares locks, and the type of all of them held, for the fork handler.
macro_rules! locks {
    ($($(#[$attribute:meta])* $name:ident: $guarded:ty = $value:expr;)*) => {
        $($(#[$attribute])* pub(crate) static $name: Mutex<$guarded> = Mutex::new($value);)*

        #[cfg(unix)]
        type AllLocks = ($(MutexGuard<'static, $guarded>,)*);

        #[cfg(unix)]
        fn lock_all() -> AllLocks {
            ($(locked(&$name),)*)
        }
    };
}

locks! {
    /// The recorded exports that their consumers still hold.
    EXPORTS: Exports = Exports::NONE;

    /// The borrows of extensions that use rust-numpy in our registry. Only threads that are attached take it.
    LENT: Vec<Lent> = Vec::new();

    /// The other types that were seen, by their addresses.
    TYPES: Option<HashMap<usize, Arc<Entry>>> = None;

    /// Pinned memory that no copy uses, kept for the next one.
    BUFFERS: Vec<Buffer> = Vec::new();

    /// The thread that frees memory once the streams that use it have passed. A child lacks this thread, and starts its own.
    RELEASER: Option<Sender<Pending>> = None;
}

/// Takes a lock of this file. The state that it guards is never half written: no code panics while it is held.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The value of a cell, made at the first call.
///
/// `PyOnceLock::get_or_init` lets other threads run while the cell is neither empty nor full: if one of them forks,
/// the next call in the child waits for ever. Here two threads may make a value each, and the first one is kept.
#[inline]
pub(crate) fn once<'a, T, E>(
    cell: &'a PyOnceLock<T>,
    py: Python<'_>,
    make: impl FnOnce() -> Result<T, E>,
) -> Result<&'a T, E> {
    match cell.get(py) {
        Some(value) => Ok(value),
        None => Ok(fill(cell, py, make()?)),
    }
}

#[cold]
fn fill<'a, T>(cell: &'a PyOnceLock<T>, py: Python<'_>, value: T) -> &'a T {
    let _ = cell.set(py, value);
    match cell.get(py) {
        Some(value) => value,
        None => unreachable!("the cell was just filled"),
    }
}

/// As `pyo3::intern`, by [`once`].
macro_rules! intern {
    ($py:expr, $text:expr $(,)?) => {{
        static NAME: ::pyo3::sync::PyOnceLock<::pyo3::Py<::pyo3::types::PyString>> =
            ::pyo3::sync::PyOnceLock::new();
        $crate::process::interned(&NAME, $py, $text)
    }};
}

/// The interned string of a cell.
#[inline]
pub(crate) fn interned<'a, 'py>(
    cell: &'a PyOnceLock<Py<PyString>>,
    py: Python<'py>,
    text: &str,
) -> &'a Bound<'py, PyString> {
    let name = match cell.get(py) {
        Some(name) => name,
        None => intern(cell, py, text),
    };
    name.bind(py)
}

#[cold]
#[inline(never)]
fn intern<'a>(cell: &'a PyOnceLock<Py<PyString>>, py: Python<'_>, text: &str) -> &'a Py<PyString> {
    fill(cell, py, PyString::intern(py, text).unbind())
}

/// Makes this state safe over forks from now on. Called before the first lock is taken.
#[cfg(unix)]
#[cold]
pub(crate) fn survive_forks() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.load(Ordering::Acquire) {
        // Two threads may both register the handlers before one of them notes it: handlers that are called twice in
        // a fork take the locks once.
        // SAFETY: functions that can be called at any time, on any thread. Without memory for them, forks are as they
        // were.
        let _ = unsafe { fork::pthread_atfork(fork::before, fork::in_parent, fork::in_child) };
        DONE.store(true, Ordering::Release);
    }
}

#[cfg(not(unix))]
pub(crate) fn survive_forks() {}

#[cfg(unix)]
mod fork {
    use std::cell::Cell;
    use std::ffi::c_int;
    use std::mem::{self, ManuallyDrop};

    use super::{AllLocks, REGISTRY, RELEASER, lock_all, locked};

    unsafe extern "C" {
        pub(super) fn pthread_atfork(
            before: extern "C" fn(),
            in_parent: extern "C" fn(),
            in_child: extern "C" fn(),
        ) -> c_int;
    }

    /// All locks of this file.
    struct Locks {
        registry: dlbridge_borrow::Held<'static>,
        _others: AllLocks,
    }

    thread_local! {
        /// The locks, of the thread that forks. Without a destructor, so that it is there as long as the thread.
        static LOCKS: Cell<Option<ManuallyDrop<Locks>>> = const { Cell::new(None) };
    }

    pub(super) extern "C" fn before() {
        if let Some(locks) = LOCKS.take() {
            LOCKS.set(Some(locks));
            return;
        }
        let locks = Locks { registry: REGISTRY.hold(), _others: lock_all() };
        LOCKS.set(Some(ManuallyDrop::new(locks)));
    }

    fn taken() -> Option<Locks> {
        LOCKS.take().map(ManuallyDrop::into_inner)
    }

    pub(super) extern "C" fn in_parent() {
        drop(taken());
    }

    pub(super) extern "C" fn in_child() {
        if let Some(Locks { registry, _others }) = taken() {
            registry.release_in_child();
            drop(_others);
            // The thread at the other end is gone, perhaps while it held a lock of the channel.
            mem::forget(locked(&RELEASER).take());
        }
    }
}
