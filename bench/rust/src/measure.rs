//! Measures the thread's running time of batches that take turns, and returns the median of each row. A counting
//! allocator adds the number of a row's allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use crate::rows::Row;

/// The cost of a call of one row.
pub(crate) struct Cost {
    pub(crate) nanoseconds: f64,
    pub(crate) allocations: f64,
}

/// The length and the number of the measurements.
pub(crate) struct Plan {
    /// Calls between two readings of the clock.
    pub(crate) batch: u32,
    /// Batches of every row.
    pub(crate) rounds: usize,
}

impl Plan {
    pub(crate) fn new(quick: bool) -> Self {
        Self { batch: 20_000, rounds: if quick { 41 } else { 601 } }
    }
}

/// Measures all rows. They take turns, so that a temporary load on the machine slows all of them; the median
/// excludes interrupted rounds.
pub(crate) fn measure(rows: &[Row], plan: &Plan) -> Vec<Cost> {
    let mut times = vec![Vec::with_capacity(plan.rounds); rows.len()];
    // The first round fills the caches and does not count.
    for round in 0..=plan.rounds {
        for (row, times) in rows.iter().zip(&mut times) {
            let time = timed(row, plan.batch);
            if round > 0 {
                times.push(time);
            }
        }
    }
    rows.iter()
        .zip(times)
        .map(|(row, times)| Cost { nanoseconds: median(times), allocations: allocations(row) })
        .collect()
}

/// Returns nanoseconds per call.
fn timed(row: &Row, calls: u32) -> f64 {
    let before = thread_time();
    for _ in 0..calls {
        (row.run)();
    }
    (thread_time() - before).as_nanos() as f64 / f64::from(calls)
}

fn allocations(row: &Row) -> f64 {
    const CALLS: u32 = 1000;
    let before = count();
    for _ in 0..CALLS {
        (row.run)();
    }
    (count() - before) as f64 / f64::from(CALLS)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns this thread's CPU time, which other programs do not add to.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(answer, 0, "the system lacks a CPU-time clock for threads");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The system's allocator with a count. Counting costs one addition to a thread-local cell in every row, so it
/// cancels when the source's row is subtracted.
pub(crate) struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of blocks that this thread has allocated.
fn count() -> u64 {
    COUNT.get()
}

// SAFETY: every call is passed unchanged to the system's allocator; the cell is in static thread-local memory without a
// destructor, so counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from the system's allocator, by one of the other functions.
        unsafe { System.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the block came from the system's allocator, and the caller keeps the contract of `realloc`.
        unsafe { System.realloc(block, layout, size) }
    }
}
