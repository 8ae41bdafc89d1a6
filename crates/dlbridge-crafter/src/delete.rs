//! The ways to call a deleter.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::capsule::Managed;
use crate::craft::counts;

/// How a consumer calls a deleter.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    WithGil,
    WithoutGil,
    NativeThread,
    AtExit,
    /// On a thread that nobody waits for; the GIL is held until after it has asked for it.
    NotWaitedFor,
}

impl TryFrom<u8> for Way {
    type Error = PyErr;

    fn try_from(way: u8) -> PyResult<Self> {
        let ways =
            [Self::WithGil, Self::WithoutGil, Self::NativeThread, Self::AtExit, Self::NotWaitedFor];
        let found = ways.get(usize::from(way));
        found.copied().ok_or_else(|| PyValueError::new_err(format!("there is no way {way}")))
    }
}

static AT_EXIT: Mutex<Vec<Managed>> = Mutex::new(Vec::new());
static REPORTED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    safe fn atexit(function: extern "C" fn()) -> c_int;
}

/// Has what is left over deleted when the process ends, after Python.
pub(crate) fn register_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        atexit(finish);
    });
}

extern "C" fn finish() {
    for managed in std::mem::take(&mut *AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner)) {
        // SAFETY: the test gave it away.
        unsafe { managed.delete() };
    }
    if REPORTED.load(SeqCst) {
        let (made, deleted, repeated) = counts();
        println!("owed {} repeated {repeated}", made - deleted);
    }
}

/// Has the process print at its end how many crafted tensors were not deleted, and how many calls of a deleter
/// were repeated.
#[pyfunction]
pub(crate) fn report_at_exit() {
    REPORTED.store(true, SeqCst);
}

/// Calls a deleter.
pub(crate) fn by(py: Python<'_>, managed: Managed, way: Way) {
    // SAFETY: the test took it and calls this once, or wants to see what a second call does.
    let delete = move || unsafe { managed.delete() };
    match way {
        Way::WithGil => delete(),
        Way::WithoutGil => py.detach(delete),
        Way::NativeThread => {
            py.detach(|| thread::spawn(move || by_address(managed)).join()).unwrap_or(());
        }
        Way::AtExit => AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner).push(managed),
        Way::NotWaitedFor => {
            thread::spawn(move || by_address(managed));
            thread::sleep(Duration::from_millis(100));
        }
    }
}

fn by_address(managed: Managed) {
    // SAFETY: as in `by`.
    unsafe { managed.delete() };
}

/// Whether an exception is what is pending now; nothing is afterwards.
fn is_pending(exception: &Bound<'_, PyAny>) -> bool {
    PyErr::take(exception.py()).is_some_and(|error| error.value(exception.py()).is(exception))
}

fn raise(exception: &Bound<'_, PyAny>) {
    // SAFETY: attached; an exception and its class.
    unsafe { ffi::PyErr_SetObject(exception.get_type().as_ptr(), exception.as_ptr()) };
}

/// Calls a deleter while an exception is pending.
pub(crate) fn pending(managed: Managed, exception: &Bound<'_, PyAny>) -> bool {
    raise(exception);
    // SAFETY: as in `by`.
    unsafe { managed.delete() };
    is_pending(exception)
}

/// Empties a list while an exception is pending; whether the same one is afterwards.
#[pyfunction]
pub(crate) fn clear_pending(list: &Bound<'_, PyList>, exception: &Bound<'_, PyAny>) -> bool {
    raise(exception);
    // SAFETY: attached; a list.
    unsafe {
        ffi::PyList_SetSlice(
            list.as_ptr(),
            0,
            ffi::PyList_Size(list.as_ptr()),
            std::ptr::null_mut(),
        )
    };
    is_pending(exception)
}
