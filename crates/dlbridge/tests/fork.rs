//! Real forks, while other threads take locks.
#![cfg(all(unix, feature = "std", not(miri)))]

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, MutexGuard};
use std::thread;

use dlbridge::fork::ForkMutex;

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(code: c_int) -> !;
    fn alarm(seconds: u32) -> u32;
}

static PAIR: ForkMutex<(u32, u32)> = ForkMutex::new((0, 0));
static LATE: ForkMutex<u32> = ForkMutex::new(0);
static CHILD: ForkMutex<bool> =
    ForkMutex::with_child(false, |mut value: MutexGuard<'_, bool>| *value = true);

#[test]
fn child_finds_locks_free_and_values_whole() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let writer = thread::spawn(|| {
        while !STOP.load(Ordering::Relaxed) {
            let mut pair = PAIR.lock();
            pair.0 = pair.0.wrapping_add(1);
            pair.1 = pair.1.wrapping_add(1);
        }
    });
    for _ in 0..200 {
        let status = child(|| {
            let (first, second) = *PAIR.lock();
            // Used here for the first time.
            *LATE.lock() += 1;
            c_int::from(first != second)
        });
        assert_eq!(status, 0, "the child waited for a lock, or found a value half written");
    }
    STOP.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert_eq!(*LATE.lock(), 0);
}

#[test]
fn value_can_change_in_the_child() {
    assert!(!*CHILD.lock());
    assert_eq!(child(|| c_int::from(!*CHILD.lock())), 0);
    assert!(!*CHILD.lock());
}

const COUNT: usize = 400;
const THREADS: usize = 3;

static FIRST: ForkMutex<()> = ForkMutex::new(());
static LOCKS: [ForkMutex<u32>; COUNT] = [const { ForkMutex::new(0) }; COUNT];

/// Takes all locks, most for the first time. Each is taken and released by the same amount, so a whole value is even.
fn take_all() {
    for lock in &LOCKS {
        let mut value = lock.lock();
        *value += 1;
        *value += 1;
    }
}

/// Forks while threads take the locks for the first time; 0 if every child finds them free.
fn fork_while_others_list() -> i32 {
    static BEGIN: Barrier = Barrier::new(THREADS + 1);
    let threads = [0; THREADS].map(|_| {
        thread::spawn(|| {
            BEGIN.wait();
            take_all();
        })
    });
    BEGIN.wait();
    let mut wrong = 0;
    while !threads.iter().all(thread::JoinHandle::is_finished) {
        wrong += i32::from(
            child(|| {
                take_all();
                i32::from(LOCKS.iter().any(|lock| *lock.lock() % 2 != 0))
            }) != 0,
        );
    }
    for thread in threads {
        if thread.join().is_err() {
            return -1;
        }
    }
    wrong
}

#[test]
fn child_of_a_fork_while_threads_list_locks_finds_all_free() {
    // The first lock registers the handlers, here: a fork that began before does not call them.
    drop(FIRST.lock());
    for _ in 0..20 {
        // A new process, which has taken no other lock.
        assert_eq!(child(fork_while_others_list), 0, "a child waited for a lock");
    }
}

#[test]
fn child_of_a_child_finds_locks_free() {
    drop(FIRST.lock());
    let status = child(|| {
        take_all();
        let held = thread::spawn(|| {
            let _held = FIRST.lock();
            thread::sleep(std::time::Duration::from_millis(50));
        });
        while FIRST.get().try_lock().is_ok() {
            thread::yield_now();
        }
        let status = child(|| {
            drop(FIRST.lock());
            child(|| {
                drop(FIRST.lock());
                0
            })
        });
        i32::from(status != 0 || held.join().is_err())
    });
    assert_eq!(status, 0);
}

#[test]
fn panic_while_a_lock_is_held_leaves_it_free_for_fork_and_child() {
    static POISONED: ForkMutex<u32> = ForkMutex::new(0);
    let panicked = thread::spawn(|| {
        let mut value = POISONED.lock();
        *value = 1;
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert_eq!(child(|| i32::from(*POISONED.lock() != 1)), 0);
    assert_eq!(*POISONED.lock(), 1);
}

/// Returns the status of a child that runs `work` and exits with its result. A child that waits for ever is killed; its
/// status is not 0.
fn child(work: fn() -> c_int) -> c_int {
    // SAFETY: the child calls `work`, which takes locks that are free, and ends without destructors.
    unsafe {
        match fork() {
            0 => {
                alarm(10);
                _exit(work())
            }
            process => {
                let mut status = -1;
                assert_eq!(waitpid(process, &mut status, 0), process);
                status
            }
        }
    }
}
