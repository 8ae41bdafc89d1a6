//! The pool: helpers on threads that wait for the next copy.
//!
//! It starts a thread when a copy first needs one, and a thread that was idle for [`KEPT`] ends. A child after `fork`
//! begins with an empty pool. No thread starts, ends or works while the pool is locked.

use std::mem;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::vec::Vec;

use crate::fork::ForkMutex;

use super::job::{self, Helper};
use super::number::num_threads;

/// The longest time that an idle thread waits for the next copy.
const KEPT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// A thread of the pool, while it is idle.
struct Idle {
    helper: Arc<Helper>,
    thread: JoinHandle<()>,
}

struct Pool {
    idle: Vec<Idle>,
    /// The last thread that ended by itself, because it was idle for long. It joins the one before it.
    ended: Option<JoinHandle<()>>,
    /// The number of threads that other callers of [`shrink`] wait for.
    awaited: usize,
    /// All threads, also those that start or work.
    count: usize,
}

static POOL: ForkMutex<Pool> = ForkMutex::with_child(
    Pool { idle: Vec::new(), ended: None, awaited: 0, count: 0 },
    |mut pool| {
        // The child does not touch what it would share with threads that it lacks.
        mem::forget(mem::take(&mut pool.idle));
        mem::forget(pool.ended.take());
        pool.awaited = 0;
        pool.count = 0;
    },
);

/// Helpers that are out of the pool. They go back on drop.
struct Taken {
    helpers: Vec<Arc<Helper>>,
    threads: Vec<JoinHandle<()>>,
}

impl Taken {
    /// At most `wanted` helpers: idle ones, and new ones while there are fewer than the pool may have.
    fn up_to(wanted: usize) -> Self {
        let mut pool = POOL.lock();
        let kept = pool.idle.len().saturating_sub(wanted);
        let idle = pool.idle.split_off(kept);
        let missing = (wanted - idle.len()).min(num_threads().saturating_sub(pool.count + 1));
        pool.count += missing;
        drop(pool);
        let (helpers, threads) = idle.into_iter().map(|idle| (idle.helper, idle.thread)).unzip();
        let mut taken = Self { helpers, threads };
        for _ in 0..missing {
            let helper = Helper::new();
            match start(&helper) {
                Some(thread) => {
                    taken.helpers.push(helper);
                    taken.threads.push(thread);
                }
                None => POOL.lock().count -= 1,
            }
        }
        taken
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let idle = self.helpers.drain(..).zip(self.threads.drain(..));
        POOL.lock().idle.extend(idle.map(|(helper, thread)| Idle { helper, thread }));
        shrink();
    }
}

/// Starts the thread of a helper. The system may refuse it.
fn start(helper: &Arc<Helper>) -> Option<JoinHandle<()>> {
    let helper = Arc::clone(helper);
    let thread = thread::Builder::new().name("dlbridge-copy".into());
    thread.spawn(move || while serve(&helper) {}).ok()
}

/// Waits for a job and works on it. Returns false if the thread ends.
fn serve(helper: &Arc<Helper>) -> bool {
    if helper.wait(KEPT) {
        return helper.work();
    }
    let mut pool = POOL.lock();
    // A helper that is out of the pool is about to get a job, or to go back.
    let place = pool.idle.iter().position(|idle| Arc::ptr_eq(&idle.helper, helper));
    let Some(place) = place else { return true };
    let Idle { thread, .. } = pool.idle.swap_remove(place);
    let before = pool.ended.replace(thread);
    pool.count -= 1;
    drop(pool);
    join(before);
    false
}

/// Ends idle threads until no more are left than the pool may have, and waits for their end.
pub(super) fn shrink() {
    // Miri refuses a program that ends before its threads.
    let most = if cfg!(miri) { 0 } else { num_threads() - 1 };
    let mut pool = POOL.lock();
    let excess = pool.count.saturating_sub(most).min(pool.idle.len());
    let kept = pool.idle.len() - excess;
    let ended = pool.idle.split_off(kept);
    let by_itself = pool.ended.take();
    let awaited = ended.len() + usize::from(by_itself.is_some());
    pool.count -= excess;
    pool.awaited += awaited;
    drop(pool);
    ended.iter().for_each(|idle| idle.helper.end());
    join(ended.into_iter().map(|idle| idle.thread).chain(by_itself));
    POOL.lock().awaited -= awaited;
}

/// Waits for the end of threads.
fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        // It cannot have panicked: panics of its work go to the copying thread.
        let _ = thread.join();
    }
}

/// As [`shrink`], and waits for the threads that other callers end.
pub(super) fn shrink_and_wait() {
    shrink();
    while POOL.lock().awaited > 0 {
        thread::sleep(Duration::from_micros(100));
    }
}

/// Calls `work` with each number below `parts`, on up to `threads` threads, including this one.
pub(super) fn run(threads: usize, parts: usize, work: &(dyn Fn(usize) + Sync)) {
    let taken = Taken::up_to(threads - 1);
    job::run(parts, work, &taken.helpers, || ());
}
