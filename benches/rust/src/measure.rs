//! Measuring: the time that the thread was running, of batches that take turns, the median of each row.

use std::time::Duration;

use crate::counting;
use crate::rows::Row;

/// What a call of one row costs.
pub(crate) struct Cost {
    pub(crate) nanoseconds: f64,
    pub(crate) allocations: f64,
}

/// How long, and how often.
pub(crate) struct Plan {
    /// Calls between two looks at the clock.
    pub(crate) batch: u32,
    /// Turns of every row.
    pub(crate) rounds: usize,
}

impl Plan {
    pub(crate) fn new(quick: bool) -> Self {
        Self { batch: 20_000, rounds: if quick { 41 } else { 601 } }
    }
}

/// Measures all rows. They take turns, so that what slows the machine for a while slows all of them; the
/// median leaves out the rounds that something else interrupted.
pub(crate) fn measure(rows: &[Row], plan: &Plan) -> Vec<Cost> {
    let mut times = vec![Vec::with_capacity(plan.rounds); rows.len()];
    // The first round fills the caches and is thrown away.
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

/// Nanoseconds of one call.
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

/// How long this thread has been running. Other programs take the processor, and none of this.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is a valid place to write.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(answer, 0, "the system has no clock of threads");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
