//! Locks that a child process finds free after `fork`.
//!
//! A child has the memory of its parent and one thread, the one that forked. A lock that another thread held would stay
//! locked for ever. So a handler of `pthread_atfork`, which forks by C code call too, takes every lock that was used
//! before a fork, and releases it in the parent and in the child. Then no thread that the child lacks holds a lock, and
//! no state is half written.
//!
//! A thread that holds one of these locks must not take another one, wait for a thread that takes one, or fork.
//! Otherwise it can wait for ever, as with any lock that is taken twice.
//!
//! ```
//! use dlbridge::fork::ForkMutex;
//!
//! static NAMES: ForkMutex<Vec<String>> = ForkMutex::new(Vec::new());
//!
//! NAMES.lock().push("first".to_owned());
//! assert_eq!(NAMES.lock().len(), 1);
//! ```
//!
//! Taking the first lock of an extension registers the handler. A fork by C code on another thread that has already
//! begun then does not call it; `os.fork` cannot have begun if an attached thread takes the first lock. Calls that run
//! no handlers, such as glibc's `_Fork`, leave locks as they are; `vfork` and `posix_spawn` need no handler, because
//! their children only start another program.
//!
//! On systems without `fork`, these are plain locks.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

mod handler;

use handler::{Link, Listed};

/// A static mutex that a child process finds free.
///
/// ```
/// use dlbridge::fork::ForkMutex;
///
/// static COUNT: ForkMutex<u32> = ForkMutex::new(0);
///
/// *COUNT.lock() += 1;
/// assert_eq!(*COUNT.lock(), 1);
/// ```
pub type ForkMutex<T> = ForkLock<Mutex<T>, MutexGuard<'static, T>>;

impl<T: Send> ForkMutex<T> {
    /// A mutex whose value a child finds unchanged.
    ///
    /// ```
    /// use dlbridge::fork::ForkMutex;
    ///
    /// static LAST: ForkMutex<Option<u8>> = ForkMutex::new(None);
    ///
    /// assert_eq!(LAST.lock().replace(3), None);
    /// ```
    pub const fn new(value: T) -> Self {
        Self::of(Mutex::new(value), take, drop)
    }

    /// A mutex whose value `in_child` changes in a child process, before the fork returns there.
    ///
    /// ```
    /// use dlbridge::fork::ForkMutex;
    ///
    /// // A thread that the child lacks.
    /// static WORKER: ForkMutex<Option<std::thread::Thread>> = ForkMutex::with_child(None, |mut worker| *worker = None);
    ///
    /// assert!(WORKER.lock().is_none());
    /// ```
    pub const fn with_child(value: T, in_child: fn(MutexGuard<'static, T>)) -> Self {
        Self::of(Mutex::new(value), take, in_child)
    }

    /// Locks the mutex, also after a thread that held it panicked: keep the guarded value valid at all times.
    ///
    /// ```
    /// use dlbridge::fork::ForkMutex;
    ///
    /// static SUM: ForkMutex<u64> = ForkMutex::new(40);
    ///
    /// *SUM.lock() += 2;
    /// assert_eq!(*SUM.lock(), 42);
    /// ```
    pub fn lock(&'static self) -> MutexGuard<'static, T> {
        take(self.listed())
    }
}

fn take<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A static lock of any kind that a child process finds free.
///
/// ```
/// use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
///
/// use dlbridge::fork::ForkLock;
///
/// static TABLE: ForkLock<RwLock<Vec<u8>>, RwLockWriteGuard<'static, Vec<u8>>> =
///     ForkLock::of(RwLock::new(Vec::new()), |lock| lock.write().unwrap_or_else(PoisonError::into_inner), drop);
///
/// TABLE.listed().write().unwrap().push(1);
/// assert_eq!(*TABLE.listed().read().unwrap(), [1]);
/// ```
#[repr(C)]
pub struct ForkLock<L: 'static, H: 'static> {
    // First: the handler finds the lock by the address of its link.
    link: Link,
    lock: L,
    hold: fn(&'static L) -> H,
    in_child: fn(H),
    /// The guard of the lock during a fork.
    held: UnsafeCell<Option<H>>,
    is_listed: AtomicBool,
}

// SAFETY: `L: Sync` lets threads share the lock. Only the handler uses `held`, on the thread that forks, while that
// thread holds the list of all locks; it makes and releases the guard on that one thread, in the child too.
unsafe impl<L: Sync, H> Sync for ForkLock<L, H> {}

impl<L: Sync, H> ForkLock<L, H> {
    /// A lock that `hold` takes before a fork. The parent drops the result; the child passes it to `in_child`.
    ///
    /// Both run while all locks are held, so they must not take another lock, and `hold` must accept a poisoned lock. A
    /// panic in one of them ends the process.
    ///
    /// See [`ForkLock`] for an example.
    pub const fn of(lock: L, hold: fn(&'static L) -> H, in_child: fn(H)) -> Self {
        Self {
            link: Link::new(Self::before, Self::after),
            lock,
            hold,
            in_child,
            held: UnsafeCell::new(None),
            is_listed: AtomicBool::new(false),
        }
    }

    /// Returns the lock. Forks hold it from now on.
    ///
    /// See [`ForkLock`] for an example.
    #[inline]
    pub fn listed(&'static self) -> &'static L {
        if !self.is_listed.load(Ordering::Acquire) {
            self.list();
        }
        &self.lock
    }

    #[cold]
    fn list(&'static self) {
        // SAFETY: `self` is static, the link is its first field, and the pointer is one to the whole lock.
        let listed = unsafe { Listed::new(std::ptr::from_ref(self).cast()) };
        handler::list(&listed);
        self.is_listed.store(true, Ordering::Release);
    }

    /// Returns the lock. Call [`listed`](Self::listed) before.
    ///
    /// ```
    /// use dlbridge::fork::ForkMutex;
    ///
    /// static COUNT: ForkMutex<u32> = ForkMutex::new(0);
    ///
    /// COUNT.listed();
    /// *COUNT.get().lock().unwrap() += 1;
    /// ```
    #[inline]
    pub const fn get(&'static self) -> &'static L {
        &self.lock
    }
}

impl<L: Sync, H> ForkLock<L, H> {
    /// # Safety
    /// `link` belongs to a static lock of this type. The thread holds the list of all locks.
    unsafe fn before(link: *const Link) {
        // SAFETY: the caller passes the link of a static lock of this type, and the link is its first field.
        let this: &'static Self = unsafe { &*link.cast::<Self>() };
        let held = (this.hold)(&this.lock);
        // SAFETY: only the thread that holds the list uses this.
        unsafe { *this.held.get() = Some(held) };
    }

    /// # Safety
    /// As for [`before`](Self::before).
    unsafe fn after(link: *const Link, in_child: bool) {
        // SAFETY: the caller passes the link of a static lock of this type, and the link is its first field.
        let this: &'static Self = unsafe { &*link.cast::<Self>() };
        // SAFETY: only the thread that holds the list uses this.
        let held = unsafe { (*this.held.get()).take() };
        match held {
            Some(held) if in_child => (this.in_child)(held),
            held => drop(held),
        }
    }
}

impl<L: fmt::Debug, H> fmt::Debug for ForkLock<L, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForkLock").field(&self.lock).finish()
    }
}
