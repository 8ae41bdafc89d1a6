//! How a deleter was called.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};

use libloading::Library;
use pyo3::ffi;
use pyo3::prelude::*;

/// How often a deleter was called, and the state of the interpreter that the last call found.
#[derive(Default)]
pub(crate) struct Record {
    calls: AtomicU32,
    thread: AtomicU64,
    gil: AtomicBool,
    initialized: AtomicBool,
    pending: AtomicBool,
}

/// Functions that the interpreter exports but that are not in the stable ABI.
struct Symbols {
    gil_is_held: Option<unsafe extern "C" fn() -> std::ffi::c_int>,
    thread_ident: Option<unsafe extern "C" fn() -> std::ffi::c_ulong>,
}

static SYMBOLS: OnceLock<Symbols> = OnceLock::new();

/// The symbols that the process exports.
#[cfg(unix)]
fn exports(_: Python<'_>) -> Option<Library> {
    Some(libloading::os::unix::Library::this().into())
}

/// The symbols that the DLL of this version of Python exports.
#[cfg(windows)]
fn exports(py: Python<'_>) -> Option<Library> {
    let version = py.version_info();
    let name = format!("python{}{}.dll", version.major, version.minor);
    libloading::os::windows::Library::open_already_loaded(name).ok().map(Library::from)
}

/// Finds the functions, before any deleter needs them.
pub(crate) fn find_symbols(py: Python<'_>) {
    SYMBOLS.get_or_init(|| {
        let Some(library) = exports(py) else {
            return Symbols { gil_is_held: None, thread_ident: None };
        };
        // SAFETY: the types are those of Python's headers, and the interpreter is never unloaded.
        unsafe {
            Symbols {
                gil_is_held: library.get(b"PyGILState_Check\0").ok().map(|symbol| *symbol),
                thread_ident: library
                    .get(b"PyThread_get_thread_ident\0")
                    .ok()
                    .map(|symbol| *symbol),
            }
        }
    });
}

impl Record {
    /// Records a call. Returns how many calls came before it, and whether this thread is attached to the interpreter.
    pub(crate) fn note(&self) -> (u32, bool) {
        let symbols = SYMBOLS.get();
        // SAFETY: `Py_IsInitialized` may be called at any time, by any thread.
        let initialized = unsafe { ffi::Py_IsInitialized() } != 0;
        let gil = initialized && is_attached();
        // SAFETY: `gil` says that this thread is attached.
        let pending = gil && !unsafe { ffi::PyErr_Occurred() }.is_null();
        // SAFETY: any thread may call `PyThread_get_thread_ident`.
        let thread = symbols.and_then(|s| s.thread_ident).map_or(0, |ident| unsafe { ident() });
        #[allow(clippy::unnecessary_cast, reason = "narrower on other systems")]
        self.thread.store(thread as u64, SeqCst);
        self.gil.store(gil, SeqCst);
        self.initialized.store(initialized, SeqCst);
        self.pending.store(pending, SeqCst);
        (self.calls.fetch_add(1, SeqCst), gil)
    }

    /// (calls, thread, gil, initialized, pending).
    pub(crate) fn values(&self) -> (u32, u64, bool, bool, bool) {
        (
            self.calls.load(SeqCst),
            self.thread.load(SeqCst),
            self.gil.load(SeqCst),
            self.initialized.load(SeqCst),
            self.pending.load(SeqCst),
        )
    }
}

/// Returns whether this thread holds the GIL. The interpreter must be initialised.
pub(crate) fn is_attached() -> bool {
    let gil_is_held = SYMBOLS.get().and_then(|symbols| symbols.gil_is_held);
    // SAFETY: the interpreter is initialised, so any thread may call both functions. The first call is needed because
    // `PyGILState_Check` returns 1 for every thread where the interpreter has switched its check off.
    unsafe {
        !ffi::PyGILState_GetThisThreadState().is_null()
            && gil_is_held.is_some_and(|check| check() != 0)
    }
}
