//! The parts of a copy, and the helpers that work on them beside the thread that copies.
//!
//! The copying thread gives the same job to each helper, and takes parts of it itself. A helper that has not begun when
//! no part is left loses the job. So a copy never waits for a thread to wake up, and needs no helper at all.
//!
//! - **Job.** A helper reads its job between `Working` and `Idle` only, and a job outlives that: [`Helper::finish`]
//!   takes it back from a helper that has not begun, and waits for one that has.

use std::any::Any;
use std::boxed::Box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{hint, ptr};

/// Checks before a thread sleeps: a few microseconds, less than it takes to wake one up.
const SPINS: usize = if cfg!(miri) { 2 } else { 200 };

/// The parts of a copy.
struct Job<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    parts: usize,
    /// The next part that no thread has taken.
    next: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// Calls `work` with each number below `parts`, on this thread and on those helpers that are idle. Calls `given` when
/// they have the job.
///
/// # Panics
/// If `work` panics on any thread.
pub(super) fn run(
    parts: usize,
    work: &(dyn Fn(usize) + Sync),
    helpers: &[Arc<Helper>],
    given: impl FnOnce(),
) {
    /// Finishes the job on drop, also if this thread panics.
    struct Finish<'a>(&'a Job<'a>, &'a [Arc<Helper>]);

    impl Drop for Finish<'_> {
        fn drop(&mut self) {
            let Self(job, helpers) = *self;
            // After a panic of this thread, no helper begins another part.
            job.next.store(job.parts, Ordering::Relaxed);
            helpers.iter().for_each(|helper| helper.finish());
        }
    }

    let job = Job { work, parts, next: AtomicUsize::new(0), panic: Mutex::new(None) };
    let finish = Finish(&job, helpers);
    for helper in helpers {
        helper.give(State::Given(JobAt(ptr::from_ref(&job).cast())));
    }
    given();
    job.work();
    drop(finish);
    if let Some(panic) = job.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
        resume_unwind(panic);
    }
}

impl Job<'_> {
    /// Works on one part after the other, until no part is left.
    fn work(&self) {
        loop {
            // The parts share no data, and the state of a helper passes on the end of the job, so no order is needed.
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= self.parts {
                return;
            }
            (self.work)(part);
        }
    }
}

/// The address of a job.
#[derive(Clone, Copy)]
struct JobAt(*const Job<'static>);

// SAFETY: threads may share a job: its work is `Sync`, and so are its other fields. Job keeps it alive.
unsafe impl Send for JobAt {}

enum State {
    Idle,
    Given(JobAt),
    Working,
    Ended,
}

/// The state that a helper shares with the thread that copies. At most one of the two waits: the helper for `Given`,
/// the copying thread for the end of `Working`.
pub(super) struct Helper {
    state: Mutex<State>,
    changed: Condvar,
}

impl Helper {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::Idle), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state of an idle helper.
    fn give(&self, next: State) {
        let mut state = self.state();
        if let State::Idle = *state {
            *state = next;
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Ends an idle helper.
    pub(super) fn end(&self) {
        self.give(State::Ended);
    }

    /// On the helper: waits until there is a job or the end. Returns false if the time is over.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let is_idle = |state: &mut State| matches!(state, State::Idle);
        for _ in 0..SPINS {
            if !is_idle(&mut self.state()) {
                return true;
            }
            hint::spin_loop();
        }
        let waited = self.changed.wait_timeout_while(self.state(), time, is_idle);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// On the helper: works on its job, if it has one. Returns false after the end.
    pub(super) fn work(&self) -> bool {
        let job = {
            let mut state = self.state();
            match *state {
                State::Ended => return false,
                State::Idle | State::Working => return true,
                State::Given(job) => {
                    *state = State::Working;
                    job
                }
            }
        };
        // SAFETY: Job: the state is `Working` until this function sets `Idle`, after the last use of the job.
        let job = unsafe { &*job.0 };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| job.work())) {
            *job.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
        }
        *self.state() = State::Idle;
        self.changed.notify_one();
        true
    }

    /// On the copying thread: takes the job back, or waits until the helper has finished it.
    fn finish(&self) {
        let is_working = |state: &mut State| match state {
            State::Given(_) => {
                *state = State::Idle;
                false
            }
            state => matches!(state, State::Working),
        };
        for _ in 0..SPINS {
            if !is_working(&mut self.state()) {
                return;
            }
            hint::spin_loop();
        }
        drop(self.changed.wait_while(self.state(), is_working));
    }
}
