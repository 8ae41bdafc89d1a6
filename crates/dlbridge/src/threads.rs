//! Splits work on memory among threads.
//!
//! One processor cannot use the whole memory bandwidth. Each large copy starts its own threads and joins them. That
//! costs little compared with the copy, and needs no configuration, no state in a child process after `fork`, and no
//! shutdown.

/// A thread pays if it copies at least this number of contiguous bytes: starting one takes as long as copying a few
/// megabytes in cache.
const BYTES: usize = if SMALL { 256 } else { 1 << 22 };

/// A thread also pays if it moves at least this number of pieces one by one.
const PIECES: usize = if SMALL { 64 } else { 1 << 18 };

/// True in tests and under Miri: small copies then use threads on any machine.
const SMALL: bool = cfg!(any(test, miri));

/// More threads than this do not make memory faster.
#[cfg(all(feature = "std", feature = "fast-copies"))]
const MOST: usize = 8;

/// The number of threads for a copy of `bytes` bytes in `pieces` pieces.
#[inline]
pub(crate) fn parts(bytes: usize, pieces: usize) -> usize {
    match (bytes / BYTES).max(pieces / PIECES) {
        0 | 1 => 1,
        parts => parts.min(processors()),
    }
}

/// The processors that this process may use, at most [`MOST`].
#[cfg(all(feature = "std", feature = "fast-copies"))]
fn processors() -> usize {
    use core::sync::atomic::{AtomicUsize, Ordering};
    // Cached: the system call takes as long as copying a megabyte.
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    if SMALL {
        return 3;
    }
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let found = std::thread::available_parallelism().map_or(1, |n| n.get().min(MOST));
            KNOWN.store(found, Ordering::Relaxed);
            found
        }
        known => known,
    }
}

#[cfg(not(all(feature = "std", feature = "fast-copies")))]
fn processors() -> usize {
    1
}

/// Splits `0..extent` into at most `parts` ranges and calls `work` with the beginning and end of each, on its own
/// thread if one is available. The lengths of all ranges except the last are multiples of `grain`, if that leaves them
/// nearly even.
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
    let part = extent.div_ceil(parts);
    let part = if part >= 8 * grain { part.next_multiple_of(grain) } else { part.max(1) };
    std::thread::scope(|scope| {
        for begin in (part..extent).step_by(part) {
            let end = extent.min(begin + part);
            let thread = std::thread::Builder::new().spawn_scoped(scope, move || work(begin, end));
            // The system may refuse a thread.
            if thread.is_err() {
                work(begin, end);
            }
        }
        work(0, part.min(extent));
    });
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
