//! The ways to call a deleter.

use std::ffi::c_int;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::block::counts;
use crate::made::locked;
use crate::managed::Managed;

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

/// How long the GIL is held for a deleter that nobody waits for, at most.
const GIL_HELD: Duration = Duration::from_millis(100);

/// Deletes what is left over when the process ends: after Python, and before the destructors of the libraries that
/// were loaded when this was called first.
fn register_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        atexit(delete_left);
    });
}

extern "C" fn delete_left() {
    let left = std::mem::take(&mut *locked(&AT_EXIT));
    for managed in left {
        // SAFETY: given away to here.
        unsafe { managed.delete() };
    }
}

/// Has the counts reported when the process ends, if somebody asks for that: after the destructors of the libraries
/// that are loaded later.
pub(crate) fn register_report() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        atexit(report);
    });
}

extern "C" fn report() {
    if REPORTED.load(SeqCst) {
        let (made, deleted, repeated) = counts();
        let owed = made.saturating_sub(deleted);
        // If nobody reads it, there is nobody to tell.
        let _ = writeln!(io::stdout(), "owed {owed} repeated {repeated}");
    }
}

/// Has the process print at its end how many crafted tensors were not deleted, and how many calls of a deleter
/// were repeated.
#[pyfunction]
pub(crate) fn report_at_exit() {
    REPORTED.store(true, SeqCst);
}

/// Whether the last deletion of `Way::NotWaitedFor` was finished before the GIL was let go.
static FINISHED: AtomicBool = AtomicBool::new(false);

/// Whether the last deleter that ran on a thread nobody waited for had finished while another thread held the GIL.
#[pyfunction]
pub(crate) fn finished_with_gil_held() -> bool {
    FINISHED.load(SeqCst)
}

/// Calls a deleter.
///
/// # Safety
/// The tensor is the caller's to delete.
pub(crate) unsafe fn by(py: Python<'_>, managed: Managed, way: Way) -> PyResult<()> {
    // SAFETY: by contract.
    let delete = move || unsafe { managed.delete() };
    match way {
        Way::WithGil => delete(),
        Way::WithoutGil => py.detach(delete),
        Way::NativeThread => {
            py.detach(|| on_a_thread(delete).map(|thread| thread.join().unwrap_or(())))?
        }
        Way::AtExit => {
            locked(&AT_EXIT).push(managed);
            register_at_exit();
        }
        Way::NotWaitedFor => {
            let done = Arc::new(AtomicBool::new(false));
            let finished = Arc::clone(&done);
            on_a_thread(move || {
                delete();
                finished.store(true, SeqCst);
            })?;
            let begin = Instant::now();
            while !done.load(SeqCst) && begin.elapsed() < GIL_HELD {
                thread::sleep(Duration::from_millis(1));
            }
            FINISHED.store(done.load(SeqCst), SeqCst);
        }
    }
    Ok(())
}

/// Starts a thread. OSError if there can be no more.
pub(crate) fn on_a_thread<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().spawn(run)
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
///
/// # Safety
/// The tensor is the caller's to delete.
pub(crate) unsafe fn pending(managed: Managed, exception: &Bound<'_, PyAny>) -> bool {
    raise(exception);
    // SAFETY: by contract.
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
