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
    use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
    use std::sync::OnceLock;

    // Every interpreter exports the second, and pyo3 does not declare it for the stable ABI.
    unsafe extern "C" {
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
        pub(super) safe fn PyThread_get_thread_ident() -> c_ulong;
    }

    /// The library that stands for all that are loaded.
    const ALL: isize = if cfg!(target_vendor = "apple") { -2 } else { 0 };

    /// Returns false if this thread is not attached. The stable ABI lacks `PyGILState_Check`, which every interpreter
    /// exports, so it is looked up.
    pub(super) fn check() -> bool {
        static CHECK: OnceLock<Option<extern "C" fn() -> c_int>> = OnceLock::new();
        const NAME: &CStr = c"PyGILState_Check";
        // SAFETY: `dlsym` gets a library and a name; the result is NULL or the function, whose signature is that of
        // `Python.h`.
        let find = || unsafe {
            std::mem::transmute::<*mut c_void, Option<extern "C" fn() -> c_int>>(dlsym(
                ALL as *mut c_void,
                NAME.as_ptr(),
            ))
        };
        CHECK.get_or_init(find).is_none_or(|check| check() != 0)
    }
}

/// The library to link is that of one version of Python on Windows. The kit runs no checks there.
#[cfg(windows)]
#[allow(non_snake_case, reason = "the names of Python's functions")]
mod python {
    pub(super) fn check() -> bool {
        true
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
    has_state && python::check()
}
