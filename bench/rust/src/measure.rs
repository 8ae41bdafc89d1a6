//! Measures the thread's running time of batches that take turns, and returns the median of each row.

use std::time::Duration;

use crate::counting;
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
    let before = counting::count();
    for _ in 0..CALLS {
        (row.run)();
    }
    (counting::count() - before) as f64 / f64::from(CALLS)
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
