//! How a deleter was called.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};

use libloading::Library;
use pyo3::ffi;

/// How often something was called, and what the last call saw.
#[derive(Default)]
pub(crate) struct Record {
    calls: AtomicU32,
    thread: AtomicU64,
    gil: AtomicBool,
    initialized: AtomicBool,
    pending: AtomicBool,
}

/// What the interpreter exports beyond the stable ABI.
struct Symbols {
    gil_is_held: Option<unsafe extern "C" fn() -> std::ffi::c_int>,
    thread_ident: Option<unsafe extern "C" fn() -> std::ffi::c_ulong>,
}

static SYMBOLS: OnceLock<Symbols> = OnceLock::new();

/// Finds the functions, before any deleter needs them.
pub(crate) fn find_symbols() {
    SYMBOLS.get_or_init(|| {
        #[cfg(unix)]
        let library = Library::from(libloading::os::unix::Library::this());
        #[cfg(windows)]
        let library = match libloading::os::windows::Library::this() {
            Ok(library) => Library::from(library),
            Err(_) => return Symbols { gil_is_held: None, thread_ident: None },
        };
        // SAFETY: the types are those of Python's headers; the interpreter is not unloaded.
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
    /// Notes a call. Returns how many there were before it.
    pub(crate) fn note(&self) -> u32 {
        let symbols = SYMBOLS.get();
        // SAFETY: may be called at any time, by any thread.
        let initialized = unsafe { ffi::Py_IsInitialized() } != 0;
        let gil_is_held = symbols.and_then(|symbols| symbols.gil_is_held);
        // SAFETY: the interpreter is initialised.
        let gil = initialized && gil_is_held.is_some_and(|check| unsafe { check() } != 0);
        // SAFETY: attached.
        let pending = gil && !unsafe { ffi::PyErr_Occurred() }.is_null();
        // SAFETY: may be called by any thread.
        let thread = symbols.and_then(|s| s.thread_ident).map_or(0, |ident| unsafe { ident() });
        #[allow(clippy::unnecessary_cast, reason = "narrower on other systems")]
        self.thread.store(thread as u64, SeqCst);
        self.gil.store(gil, SeqCst);
        self.initialized.store(initialized, SeqCst);
        self.pending.store(pending, SeqCst);
        self.calls.fetch_add(1, SeqCst)
    }

    /// Whether the last call was under the GIL.
    pub(crate) fn gil(&self) -> bool {
        self.gil.load(SeqCst)
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
