//! Helpers in the rayon pool of the thread that copies.
//!
//! A task that rayon has not begun when no part is left loses its job. So a copy does not wait for a busy pool, as
//! rayon's scopes do, and runs no other task of the program meanwhile. A busy pool keeps such tasks until it has time
//! for them, so their number is limited.

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::vec::Vec;

use super::job::{self, Helper};

/// The number of tasks that no pool has begun.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// The number of threads of the rayon pool that this thread is in; `None` if it is in no pool.
pub(super) fn num_threads() -> Option<usize> {
    rayon_core::current_thread_index().map(|_| rayon_core::current_num_threads())
}

/// Calls `work` with each number below `parts`, on up to `threads` threads, including this one.
pub(super) fn run(threads: usize, parts: usize, work: &(dyn Fn(usize) + Sync)) {
    let helpers: Vec<_> = iter::repeat_with(Helper::new).take(threads - 1).collect();
    job::run(parts, work, &helpers, || {
        for helper in &helpers {
            if WAITING.fetch_add(1, Ordering::Relaxed) >= rayon_core::current_num_threads() {
                WAITING.fetch_sub(1, Ordering::Relaxed);
                break;
            }
            let helper = Arc::clone(helper);
            rayon_core::spawn(move || {
                WAITING.fetch_sub(1, Ordering::Relaxed);
                helper.work();
            });
        }
    });
}
