//! How a deleter was called.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};

use pyo3::ffi;

/// How often a deleter was called, and the state of the interpreter that the last call found.
#[derive(Default)]
pub(crate) struct Record {
    calls: AtomicU32,
    thread: AtomicU64,
    gil: AtomicBool,
    initialized: AtomicBool,
    pending: AtomicBool,
}

#[cfg(not(windows))]
mod python {
    use std::ffi::{c_int, c_ulong};

    // Every interpreter exports both, and pyo3 declares neither for the stable ABI.
    unsafe extern "C" {
        pub(super) safe fn PyGILState_Check() -> c_int;
        pub(super) safe fn PyThread_get_thread_ident() -> c_ulong;
    }
}

/// The library to link is that of one version of Python on Windows. The kit runs no checks there.
#[cfg(windows)]
#[allow(non_snake_case, reason = "the names of Python's functions")]
mod python {
    pub(super) fn PyGILState_Check() -> i32 {
        1
    }

    pub(super) fn PyThread_get_thread_ident() -> u64 {
        0
    }
}

impl Record {
    /// Records a call. Returns how many calls came before it, and whether this thread is attached to the interpreter.
    pub(crate) fn note(&self) -> (u32, bool) {
        // SAFETY: `Py_IsInitialized` may be called at any time, by any thread.
        let initialized = unsafe { ffi::Py_IsInitialized() } != 0;
        let gil = initialized && is_attached();
        // SAFETY: `gil` says that this thread is attached.
        let pending = gil && !unsafe { ffi::PyErr_Occurred() }.is_null();
        #[allow(clippy::useless_conversion, reason = "narrower on other systems")]
        self.thread.store(python::PyThread_get_thread_ident().into(), SeqCst);
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
    // SAFETY: the interpreter is initialised, so any thread may call this. It is needed because `PyGILState_Check` returns
    // 1 for every thread where the interpreter has switched its check off.
    let has_state = unsafe { !ffi::PyGILState_GetThisThreadState().is_null() };
    has_state && python::PyGILState_Check() != 0
}
