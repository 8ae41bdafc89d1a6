//! The deleter of a tensor that a crafted one owns. The owned one may own another, and so on: no chain needs a deep stack.

use std::cell::{Cell, RefCell};

use pyo3::ffi;

use crate::managed::Managed;

/// How many deleters that own another tensor may run inside each other on a thread. The deepest one calls the deleters of the
/// tensors that those inside it own.
const DEEPEST: usize = 16;

thread_local! {
    static RUNNING: Cell<usize> = const { Cell::new(0) };
    static WAITING: RefCell<Vec<Managed>> = const { RefCell::new(Vec::new()) };
}

/// Calls the deleter of a tensor without the GIL: now, or before the deepest deleter around this one returns.
///
/// # Safety
/// The tensor is the caller's to delete. The thread is attached if `is_attached` says so.
pub(crate) unsafe fn delete(owned: Managed, is_attached: bool) {
    // A thread that has destroyed its variables counts nothing.
    let running = RUNNING.try_with(Cell::get).unwrap_or(0);
    if running >= DEEPEST && WAITING.try_with(|waiting| waiting.borrow_mut().push(owned)).is_ok() {
        return;
    }
    let count = |step: fn(usize) -> usize| RUNNING.try_with(|r| r.set(step(r.get())));
    let _ = count(|running| running + 1);
    let state = match is_attached {
        // SAFETY: by contract.
        true => unsafe { ffi::PyEval_SaveThread() },
        false => std::ptr::null_mut(),
    };
    // SAFETY: by contract.
    unsafe { owned.delete() };
    if running + 1 >= DEEPEST {
        let next = || WAITING.try_with(|waiting| waiting.borrow_mut().pop()).ok().flatten();
        while let Some(owned) = next() {
            // SAFETY: by the contract of the call that has queued it.
            unsafe { owned.delete() };
        }
    }
    if !state.is_null() {
        // SAFETY: saved above.
        unsafe { ffi::PyEval_RestoreThread(state) };
    }
    let _ = count(|running| running - 1);
}
