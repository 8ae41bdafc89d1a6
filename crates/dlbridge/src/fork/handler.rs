//! The list of all locks, and the handlers that a fork calls for them.
//!
//! - **List.** A link is added to the list once, while the list is locked, and stays there: its lock is static. Before a
//!   fork the list is locked too, so no lock is added while the others are held, and none is taken for the first time.
//!
//! A fork on one thread calls `before` and then, on the same thread, `in_parent` or `in_child`, also if the fork fails.
//! Two handlers may be registered, and a fork that began before a handler was registered may call its second half
//! alone: `HELD` says what to release.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

/// A lock in the list. Without fork, nothing calls its functions.
#[cfg_attr(not(unix), allow(dead_code))]
pub(crate) struct Link {
    /// The lock that was added before this one.
    next: AtomicPtr<Link>,
    before: unsafe fn(*const Link),
    after: unsafe fn(*const Link, bool),
}

impl Link {
    /// `before` takes the lock of a link, `after` releases it. `after` gets `true` in a child.
    pub(crate) const fn new(
        before: unsafe fn(*const Self),
        after: unsafe fn(*const Self, bool),
    ) -> Self {
        Self { next: AtomicPtr::new(ptr::null_mut()), before, after }
    }
}

/// The address of the link of a static lock.
#[derive(Clone, Copy)]
pub(crate) struct Listed(*const Link);

// SAFETY: the address is that of a static lock (`Listed::new`), which all threads may read.
unsafe impl Send for Listed {}

impl Listed {
    /// # Safety
    /// `link` points to the link of a static lock. The pointer may access the whole lock: the functions of the link
    /// read more than the link.
    pub(crate) unsafe fn new(link: *const Link) -> Self {
        Self(link)
    }
}

/// The lock that was added last.
static LAST: Mutex<Listed> = Mutex::new(Listed(ptr::null()));

/// Adds a lock, unless the list already has it.
pub(crate) fn list(lock: &Listed) {
    #[cfg(all(unix, not(miri)))]
    fork::register();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if links(*last).any(|link| ptr::eq(link, lock.0)) {
        return;
    }
    // SAFETY: a link of a static lock (`Listed::new`).
    let link = unsafe { &*lock.0 };
    link.next.store(last.0.cast_mut(), Ordering::Relaxed);
    *last = *lock;
}

/// The links from `from` on. The caller has locked the list.
fn links(from: Listed) -> impl Iterator<Item = *const Link> {
    let mut at = from.0;
    std::iter::from_fn(move || {
        let link = at;
        // SAFETY: a link in the list, or NULL.
        at = unsafe { link.as_ref() }?.next.load(Ordering::Relaxed);
        Some(link)
    })
}

#[cfg(unix)]
mod fork {
    use std::cell::Cell;
    use std::ffi::c_int;
    use std::mem::ManuallyDrop;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{MutexGuard, PoisonError};
    use std::thread_local;

    use super::{LAST, Listed, links};

    unsafe extern "C" {
        fn pthread_atfork(
            before: extern "C" fn(),
            in_parent: extern "C" fn(),
            in_child: extern "C" fn(),
        ) -> c_int;
    }

    thread_local! {
        /// The locked list, on the thread that forks. Without a destructor, it is usable as long as the thread lives.
        static HELD: Cell<Option<ManuallyDrop<MutexGuard<'static, Listed>>>> = const { Cell::new(None) };
    }

    /// Registers the handlers, before the first lock is taken.
    #[cfg_attr(miri, expect(dead_code, reason = "Miri does not fork"))]
    pub(super) fn register() {
        static DONE: AtomicBool = AtomicBool::new(false);
        if !DONE.load(Ordering::Acquire) {
            // Two threads may both register the handlers before one of them sets `DONE`. Handlers that a fork calls
            // twice take the locks once.
            // SAFETY: these functions can be called at any time, on any thread, while this library is loaded: glibc
            // removes the handlers of a library that it unloads, and musl and Python unload none. If memory for the
            // handlers runs out, forks do not take the locks.
            let _ = unsafe { pthread_atfork(before, in_parent, in_child) };
            DONE.store(true, Ordering::Release);
        }
    }

    pub(super) extern "C" fn before() {
        if let Some(held) = HELD.take() {
            HELD.set(Some(held));
            return;
        }
        let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        for link in links(*last) {
            // SAFETY: in the list, which is locked.
            unsafe { ((*link).before)(link) };
        }
        HELD.set(Some(ManuallyDrop::new(last)));
    }

    pub(super) fn after(is_child: bool) {
        let Some(last) = HELD.take().map(ManuallyDrop::into_inner) else { return };
        for link in links(*last) {
            // SAFETY: in the list, which is locked.
            unsafe { ((*link).after)(link, is_child) };
        }
    }

    extern "C" fn in_parent() {
        after(false);
    }

    extern "C" fn in_child() {
        after(true);
    }
}

/// Forks without a second process: one thread calls the handlers in order, while others list and take locks.
#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{MutexGuard, TryLockError};
    use std::thread;

    use super::fork::{after, before};
    use crate::fork::ForkMutex;

    const THREADS: usize = 3;
    const COUNT: usize = if cfg!(miri) { 8 } else { 200 };
    const FORKS: usize = if cfg!(miri) { 4 } else { 50 };

    static LOCKS: [ForkMutex<usize>; COUNT] = [const { ForkMutex::new(0) }; COUNT];
    static IN_CHILDREN: ForkMutex<usize> =
        ForkMutex::with_child(0, |mut forks: MutexGuard<'_, usize>| *forks += 1);

    #[test]
    fn fork_while_threads_list_locks_holds_every_listed_lock() {
        static DONE: AtomicUsize = AtomicUsize::new(0);
        IN_CHILDREN.listed();
        let threads = [0; THREADS].map(|_| {
            thread::spawn(|| {
                for lock in &LOCKS {
                    *lock.lock() += 1;
                }
                DONE.fetch_add(1, Ordering::Relaxed);
            })
        });
        let mut forks = 0;
        while forks < FORKS || DONE.load(Ordering::Relaxed) < THREADS {
            before();
            // A second handler, which two threads may have registered.
            before();
            for lock in LOCKS.iter().filter(|lock| lock.is_listed.load(Ordering::Acquire)) {
                assert!(matches!(lock.get().try_lock(), Err(TryLockError::WouldBlock)));
            }
            after(forks.is_multiple_of(2));
            after(forks.is_multiple_of(2));
            forks += 1;
            thread::yield_now();
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(LOCKS.iter().all(|lock| *lock.lock() == THREADS));
        assert_eq!(*IN_CHILDREN.lock(), forks.div_ceil(2));
    }
}
