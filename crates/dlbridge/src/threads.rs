//! Splits large copies among threads.
//!
//! One processor cannot use the whole memory bandwidth. So a large copy starts threads, which end with it.

#[cfg(all(feature = "std", feature = "fast-copies"))]
use core::iter;
use core::num::NonZeroUsize;
#[cfg(all(feature = "std", feature = "fast-copies"))]
use core::sync::atomic::{AtomicUsize, Ordering};

/// Copies of at least this number of bytes use threads. At half of it, starting a thread costs as much time as it saves.
const BYTES: usize = if SMALL { 512 } else { 1 << 24 };

/// True in tests and under Miri: small copies then use threads on any machine.
const SMALL: bool = cfg!(any(test, miri));

/// The largest number of threads that [`set_num_threads`] sets.
///
/// ```
/// dlbridge::set_num_threads(std::num::NonZeroUsize::MAX);
/// assert!(dlbridge::num_threads() <= dlbridge::MAX_NUM_THREADS);
/// ```
pub const MAX_NUM_THREADS: usize = 1024;

/// The default is at most this number: more threads do not make memory faster.
#[cfg(all(feature = "std", feature = "fast-copies"))]
const DEFAULT_MOST: usize = 8;

/// The number that was set, or 0.
#[cfg(all(feature = "std", feature = "fast-copies"))]
static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// Returns the largest number of threads for a copy, including the thread that calls it. The default is the number of
/// processors that this process may use, at most 8.
///
/// ```
/// assert!(dlbridge::num_threads() >= 1);
/// ```
pub fn num_threads() -> usize {
    #[cfg(all(feature = "std", feature = "fast-copies"))]
    {
        match NUMBER.load(Ordering::Relaxed) {
            // Tests use several threads on any machine.
            0 if SMALL => 3,
            0 => processors().min(DEFAULT_MOST),
            set => set,
        }
    }
    #[cfg(not(all(feature = "std", feature = "fast-copies")))]
    1
}

/// Sets the largest number of threads for a copy, including the thread that calls it; 1 means that no other thread
/// copies. A number above [`MAX_NUM_THREADS`] counts as that. The number is that of the process, or of one dynamic
/// library if the crate is linked into several.
///
/// A copy starts its threads, and ends them before it returns. A program that makes large copies on all processors at
/// once, for example in a rayon pool, sets 1.
///
/// Without the features `std` and `fast-copies` copies use one thread, and this function does nothing.
///
/// ```
/// use std::num::NonZeroUsize;
///
/// dlbridge::set_num_threads(NonZeroUsize::MIN);
/// assert_eq!(dlbridge::num_threads(), 1);
/// ```
pub fn set_num_threads(threads: NonZeroUsize) {
    let threads = threads.get().min(MAX_NUM_THREADS);
    #[cfg(all(feature = "std", feature = "fast-copies"))]
    NUMBER.store(threads, Ordering::Relaxed);
    let _ = threads;
}

/// The number of processors that this process may use.
#[cfg(all(feature = "std", feature = "fast-copies"))]
fn processors() -> usize {
    // Cached: the system call takes as long as copying a megabyte.
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let found = std::thread::available_parallelism().map_or(1, |n| n.get());
            KNOWN.store(found, Ordering::Relaxed);
            found
        }
        known => known,
    }
}

/// The number of threads for a copy of `bytes` bytes.
#[inline]
pub(crate) fn parts(bytes: usize) -> usize {
    if bytes < BYTES { 1 } else { num_threads() }
}

/// Ranges for each thread: a thread that starts late leaves more of them to the others, and the last range that a
/// thread works on is short.
#[cfg(all(feature = "std", feature = "fast-copies"))]
const RANGES: usize = 16;

/// Splits `0..extent` into ranges and calls `work` with the beginning and end of each, on up to `parts` threads. The
/// lengths of all ranges except the last are multiples of `grain`, if that leaves a range for each thread.
///
/// # Panics
/// If `work` panics on any thread.
#[cfg(all(feature = "std", feature = "fast-copies"))]
pub(crate) fn split(
    extent: usize,
    parts: usize,
    grain: usize,
    work: &(impl Fn(usize, usize) + Sync),
) {
    if parts == 1 {
        return work(0, extent);
    }
    let range = extent.div_ceil(parts * RANGES).max(1).next_multiple_of(grain);
    let range = if extent.div_ceil(range) >= parts { range } else { extent.div_ceil(parts).max(1) };
    let ranges = extent.div_ceil(range);
    run(parts.min(ranges), ranges, &|nth| work(nth * range, extent.min((nth + 1) * range)));
}

#[cfg(not(all(feature = "std", feature = "fast-copies")))]
pub(crate) fn split(extent: usize, _: usize, _: usize, work: &impl Fn(usize, usize)) {
    work(0, extent);
}

/// Calls `work` with each number below `parts`, on up to `threads` threads, including this one.
#[cfg(all(feature = "std", feature = "fast-copies"))]
pub fn run(threads: usize, parts: usize, work: &(dyn Fn(usize) + Sync)) {
    let next = AtomicUsize::new(0);
    // The parts share no data, and the end of the scope waits for all threads, so no order is needed.
    let each = || {
        let taken = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&part| part < parts);
        iter::from_fn(taken).for_each(work);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let thread = std::thread::Builder::new().name("dlbridge-copy".into());
            // The system may refuse a thread; then the others do its work.
            if thread.spawn_scoped(scope, each).is_err() {
                break;
            }
        }
        each();
    });
}

/// The beginning of memory that several threads write in parts.
#[derive(Clone, Copy)]
pub(crate) struct Place(pub(crate) *mut u8);

// SAFETY: only an address. Code that turns it into a reference must argue that no other thread uses that memory.
unsafe impl Sync for Place {}

impl Place {
    /// The address `bytes` bytes further on.
    pub(crate) fn at(self, bytes: usize) -> *mut u8 {
        self.0.wrapping_add(bytes)
    }
}

#[cfg(all(test, feature = "std", feature = "fast-copies"))]
mod tests {
    use core::num::NonZeroUsize;
    use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::vec::Vec;
    use std::{format, thread};

    use super::{MAX_NUM_THREADS, num_threads, run, set_num_threads, split};

    const ROUNDS: usize = if cfg!(miri) { 3 } else { 300 };

    /// Numbers how often each index was visited.
    fn counts(len: usize) -> Vec<AtomicUsize> {
        (0..len).map(|_| AtomicUsize::new(0)).collect()
    }

    fn assert_each_once(counts: &[AtomicUsize], context: &str) {
        let once = counts.iter().all(|count| count.load(Ordering::Relaxed) == 1);
        assert!(once, "{context}: {counts:?}");
    }

    #[test]
    fn split_any_extent_visits_every_index_once() {
        let extents: &[usize] = match cfg!(miri) {
            true => &[0, 1, 5, 64, 65, 129],
            false => &[0, 1, 2, 3, 5, 63, 64, 65, 100, 127, 129, 1000],
        };
        for &extent in extents {
            for (parts, grain) in [(1, 64), (2, 1), (2, 64), (3, 64), (3, 7), (8, 16)] {
                let visited = counts(extent);
                split(extent, parts, grain, &|begin, end| {
                    visited[begin..end]
                        .iter()
                        .for_each(|count| _ = count.fetch_add(1, Ordering::Relaxed));
                });
                assert_each_once(&visited, &format!("{extent} in {parts} by {grain}"));
            }
        }
    }

    #[test]
    fn run_several_callers_at_once_each_part_runs_once() {
        thread::scope(|scope| {
            for caller in 0..4 {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let visited = counts(10);
                        run(3, 10, &|part| _ = visited[part].fetch_add(1, Ordering::Relaxed));
                        assert_each_once(&visited, &format!("caller {caller}, round {round}"));
                    }
                });
            }
        });
    }

    #[test]
    fn set_num_threads_during_copies_keeps_every_part() {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let visited = counts(10);
                    split(10, num_threads(), 1, &|begin, end| {
                        visited[begin..end]
                            .iter()
                            .for_each(|count| _ = count.fetch_add(1, Ordering::Relaxed));
                    });
                    assert_each_once(&visited, &format!("round {round}"));
                }
                done.store(true, Ordering::Relaxed);
            });
            let mut number = 0;
            while !done.load(Ordering::Relaxed) {
                number = number % 5 + 1;
                set_num_threads(NonZeroUsize::new(number).unwrap());
                assert_eq!(num_threads(), number);
                thread::yield_now();
            }
        });
        set_num_threads(NonZeroUsize::MAX);
        assert_eq!(num_threads(), MAX_NUM_THREADS);
        set_num_threads(NonZeroUsize::new(3).unwrap());
        assert_eq!(num_threads(), 3);
    }

    #[test]
    fn run_panic_on_any_thread_reaches_the_caller_after_all_threads() {
        for panicking in 0..6 {
            let working = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                run(3, 6, &|part| {
                    working.fetch_add(1, Ordering::Relaxed);
                    assert_ne!(part, panicking, "the panic of a part");
                    thread::yield_now();
                    working.fetch_sub(1, Ordering::Relaxed);
                });
            }));
            assert!(result.is_err());
            assert_eq!(working.load(Ordering::Relaxed), 1, "only the part that panicked");
        }
    }
}
