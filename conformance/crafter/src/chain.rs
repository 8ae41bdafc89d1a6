//! Deletes a tensor that a crafted one owns.
//!
//! The owned tensor may own another, and so on. A long chain does not need a deep stack.

use std::cell::{Cell, RefCell};

use pyo3::ffi;

use crate::managed::Managed;

/// How many deleters of owned tensors may be nested on a thread. The deepest one queues further owned tensors and then
/// deletes them in a loop.
const DEEPEST: usize = 16;

thread_local! {
    static RUNNING: Cell<usize> = const { Cell::new(0) };
    static WAITING: RefCell<Vec<Managed>> = const { RefCell::new(Vec::new()) };
}

/// Calls the deleter of a tensor without the GIL: now, or before the deepest nested deleter returns.
///
/// # Safety
/// The caller owns the tensor and gives it away. The thread is attached if and only if `is_attached` is true.
pub(crate) unsafe fn delete(owned: Managed, is_attached: bool) {
    // A thread that has destroyed its thread-local variables cannot count.
    let running = RUNNING.try_with(Cell::get).unwrap_or(0);
    if running >= DEEPEST && WAITING.try_with(|waiting| waiting.borrow_mut().push(owned)).is_ok() {
        return;
    }
    let count = |step: fn(usize) -> usize| RUNNING.try_with(|r| r.set(step(r.get())));
    let _ = count(|running| running + 1);
    let state = match is_attached {
        // SAFETY: the thread is attached, as `is_attached` says.
        true => unsafe { ffi::PyEval_SaveThread() },
        false => std::ptr::null_mut(),
    };
    // SAFETY: the caller owns the tensor and gave it away to this call.
    unsafe { owned.delete() };
    if running + 1 >= DEEPEST {
        let next = || WAITING.try_with(|waiting| waiting.borrow_mut().pop()).ok().flatten();
        while let Some(owned) = next() {
            // SAFETY: the call that queued the tensor was given it; `pop` hands it out once.
            unsafe { owned.delete() };
        }
    }
    if !state.is_null() {
        // SAFETY: `PyEval_SaveThread` above returned this state on this thread.
        unsafe { ffi::PyEval_RestoreThread(state) };
    }
    let _ = count(|running| running - 1);
}
