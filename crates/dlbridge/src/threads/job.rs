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
use std::time::{Duration, Instant};
use std::{hint, ptr};

use super::number::{num_threads, processors};

/// How long a thread looks for a change before it sleeps: as long as it takes to wake one up on a virtual machine, where
/// the processor of a sleeping thread often sleeps too. None if there are more threads than processors, because then it
/// would take the processor of a thread that works.
fn awake() -> Duration {
    match cfg!(miri) || num_threads() > processors() {
        true => Duration::ZERO,
        false => Duration::from_micros(100),
    }
}

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
    /// The number of changes. A thread that looks for one does not lock the state, so it does not slow the other down.
    changes: AtomicUsize,
}

impl Helper {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::Idle),
            changed: Condvar::new(),
            changes: AtomicUsize::new(0),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes up the thread that waits for it.
    fn change(&self, mut state: MutexGuard<'_, State>, next: State) {
        *state = next;
        self.changes.fetch_add(1, Ordering::Relaxed);
        drop(state);
        self.changed.notify_one();
    }

    /// Looks for a change for a short time. Returns once `is_waiting` returns false for the state.
    fn look(&self, is_waiting: &mut impl FnMut(&mut State) -> bool) {
        let (begin, awake) = (Instant::now(), awake());
        loop {
            let mut state = self.state();
            if !is_waiting(&mut state) {
                return;
            }
            // Under the lock, so no change is missed.
            let seen = self.changes.load(Ordering::Relaxed);
            drop(state);
            while self.changes.load(Ordering::Relaxed) == seen {
                if begin.elapsed() >= awake {
                    return;
                }
                (0..16).for_each(|_| hint::spin_loop());
            }
        }
    }

    /// Changes the state of an idle helper.
    fn give(&self, next: State) {
        let state = self.state();
        if let State::Idle = *state {
            self.change(state, next);
        }
    }

    /// Ends an idle helper.
    pub(super) fn end(&self) {
        self.give(State::Ended);
    }

    /// On the helper: waits until there is a job or the end. Returns false if the time is over.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let mut is_idle = |state: &mut State| matches!(state, State::Idle);
        self.look(&mut is_idle);
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
        self.change(self.state(), State::Idle);
        true
    }

    /// On the copying thread: takes the job back, or waits until the helper has finished it.
    fn finish(&self) {
        let mut must_wait = |state: &mut State| match state {
            State::Given(_) => {
                *state = State::Idle;
                false
            }
            state => matches!(state, State::Working),
        };
        self.look(&mut must_wait);
        drop(self.changed.wait_while(self.state(), must_wait));
    }
}
