//! Splits work on memory among threads.
//!
//! One processor cannot use the whole memory bandwidth. So a pool of threads waits for large copies.

#[cfg(all(feature = "std", feature = "fast-copies"))]
mod job;
#[forbid(unsafe_code)]
mod number;
#[cfg(all(feature = "std", feature = "fast-copies"))]
#[forbid(unsafe_code)]
mod pool;
#[cfg(feature = "rayon")]
#[forbid(unsafe_code)]
mod rayon;
#[cfg(all(test, feature = "std", feature = "fast-copies"))]
mod tests;

use core::num::NonZeroUsize;

pub use number::num_threads;

/// A thread pays if it copies at least this number of contiguous bytes: waking one up takes as long as copying a few
/// hundred kilobytes in cache.
const BYTES: usize = if SMALL { 256 } else { 1 << 20 };

/// A thread also pays if it moves at least this number of pieces one by one.
const PIECES: usize = if SMALL { 64 } else { 1 << 17 };

/// True in tests and under Miri: small copies then use threads on any machine.
const SMALL: bool = cfg!(any(test, miri));

/// The largest number of threads that [`set_num_threads`] sets.
///
/// ```
/// dlbridge::set_num_threads(std::num::NonZeroUsize::MAX);
/// assert!(dlbridge::num_threads() <= dlbridge::MAX_NUM_THREADS);
/// ```
pub const MAX_NUM_THREADS: usize = 1024;

/// The number of threads for a copy of `bytes` bytes in `pieces` pieces.
#[inline]
pub(crate) fn parts(bytes: usize, pieces: usize) -> usize {
    match (bytes / BYTES).max(pieces / PIECES) {
        0 | 1 => 1,
        parts => parts.min(num_threads()),
    }
}

/// Sets the number of threads for a large copy, including the thread that calls it; 1 means that no other thread
/// copies. A number above [`MAX_NUM_THREADS`] counts as that. The number is that of the process, or of one dynamic
/// library if the crate is linked into several.
///
/// Threads start when a copy needs them, wait for the next copy, and end after ten seconds without one. They look for it
/// for 100 microseconds, then they sleep. This function
/// ends waiting threads that are too many, and waits for their end. Call it with 1 before a `fork` that must find no
/// other thread.
///
/// With the feature `rayon`, a copy in a thread of a rayon pool uses at most this number of threads of that pool.
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
    {
        number::set(threads);
        pool::shrink_and_wait();
    }
    let _ = threads;
}

/// Ranges for each thread: a thread that wakes up late leaves more of them to the others, and the last range that a thread
/// works on is short.
#[cfg(all(feature = "std", feature = "fast-copies"))]
const RANGES: usize = 16;

/// Splits `0..extent` into ranges and calls `work` with the beginning and end of each, on up to `parts` threads. The
/// lengths of all ranges except the last are multiples of `grain`, if that leaves a range for each thread.
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
    let work = |nth: usize| work(nth * range, extent.min((nth + 1) * range));
    let threads = parts.min(ranges.max(1));
    #[cfg(feature = "rayon")]
    if let Some(most) = rayon::num_threads() {
        return rayon::run(threads.min(most), ranges, &work);
    }
    pool::run(threads, ranges, &work);
}

#[cfg(not(all(feature = "std", feature = "fast-copies")))]
pub(crate) fn split(extent: usize, _: usize, _: usize, work: &impl Fn(usize, usize)) {
    work(0, extent);
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
