//! Real forks, while other threads take locks.
#![cfg(all(unix, feature = "std", not(miri)))]

mod child;
mod listed;

use std::ffi::c_int;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use child::child;
use dlbridge::fork::ForkMutex;

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
