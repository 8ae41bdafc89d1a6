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
    /// On a new thread, without joining it. The caller keeps the GIL until the deleter is done, or for `GIL_HELD`.
    NotWaitedFor,
}

impl TryFrom<u8> for Way {
    type Error = PyErr;

    fn try_from(way: u8) -> PyResult<Self> {
        let ways =
            [Self::WithGil, Self::WithoutGil, Self::NativeThread, Self::AtExit, Self::NotWaitedFor];
        let found = ways.get(usize::from(way));
        found
            .copied()
            .ok_or_else(|| PyValueError::new_err(format!("unknown way {way}; known: 0 to 4")))
    }
}

static AT_EXIT: Mutex<Vec<Managed>> = Mutex::new(Vec::new());
static REPORTED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    safe fn atexit(function: extern "C" fn()) -> c_int;
}

/// The longest time that `Way::NotWaitedFor` keeps the GIL.
const GIL_HELD: Duration = Duration::from_millis(100);

/// Registers the deletion of the tensors of `Way::AtExit` for the end of the process: after Python, and before the
/// destructors of the libraries that were loaded before the first call of this function.
fn register_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        atexit(delete_left);
    });
}

extern "C" fn delete_left() {
    let left = std::mem::take(&mut *locked(&AT_EXIT));
    for managed in left {
        // SAFETY: `by` was given this tensor and queued it once.
        unsafe { managed.delete() };
    }
}

/// Registers `report` for the end of the process. It runs after the destructors of libraries that are loaded later, and
/// prints only if `report_at_exit` was called.
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
        // If stdout is closed, the failure cannot be reported either.
        let _ = writeln!(io::stdout(), "owed {owed} repeated {repeated}");
    }
}

/// Makes the process print, at its end, how many crafted tensors were not deleted, and how many deleter calls were
/// repeated.
#[pyfunction]
pub(crate) fn report_at_exit() {
    REPORTED.store(true, SeqCst);
}

/// Set if the last deletion by `Way::NotWaitedFor` finished while the caller held the GIL.
static FINISHED: AtomicBool = AtomicBool::new(false);

/// Returns whether the last deletion by `Way::NotWaitedFor` finished while the caller held the GIL.
#[pyfunction]
pub(crate) fn finished_with_gil_held() -> bool {
    FINISHED.load(SeqCst)
}

/// Calls a deleter in one of the ways.
///
/// # Safety
/// The caller owns the tensor and gives it away.
pub(crate) unsafe fn by(py: Python<'_>, managed: Managed, way: Way) -> PyResult<()> {
    // SAFETY: the caller gave the tensor away, and each way calls this closure at most once.
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

/// Starts a thread. Fails with an OSError if the system cannot start one.
pub(crate) fn on_a_thread<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().spawn(run)
}

/// Clears the pending exception, and returns whether it was this one.
fn is_pending(exception: &Bound<'_, PyAny>) -> bool {
    PyErr::take(exception.py()).is_some_and(|error| error.value(exception.py()).is(exception))
}

fn raise(exception: &Bound<'_, PyAny>) {
    // SAFETY: attached; the arguments are the class of an exception and the exception.
    unsafe { ffi::PyErr_SetObject(exception.get_type().as_ptr(), exception.as_ptr()) };
}

/// Calls a deleter while an exception is pending, and returns whether the same exception is pending afterwards.
///
/// # Safety
/// The caller owns the tensor and gives it away.
pub(crate) unsafe fn pending(managed: Managed, exception: &Bound<'_, PyAny>) -> bool {
    raise(exception);
    // SAFETY: the caller owns the tensor and gave it away.
    unsafe { managed.delete() };
    is_pending(exception)
}

/// Empties a list while an exception is pending, and returns whether the same exception is pending afterwards.
#[pyfunction]
pub(crate) fn clear_pending(list: &Bound<'_, PyList>, exception: &Bound<'_, PyAny>) -> bool {
    raise(exception);
    // SAFETY: attached; `list` is a list, and NULL deletes the slice.
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
