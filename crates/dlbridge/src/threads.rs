//! Work on memory shared out among threads.
//!
//! One processor does not use all the bandwidth that memory has. Threads are made for one copy and
//! are gone after it: what that costs is little beside what is gained for large ones, and there is nothing
//! to be configured, nothing left over in a child process after `fork`, and nothing to end.

/// Adjacent bytes for which another thread is worth it: to make one takes as long as to copy a few
/// megabytes that are in a cache.
const BYTES: usize = if SMALL { 256 } else { 1 << 22 };

/// The same in pieces that are moved one by one.
const PIECES: usize = if SMALL { 64 } else { 1 << 18 };

/// Tests, and Miri in all of them, see threads where copies are small, and on any machine.
const SMALL: bool = cfg!(any(test, miri));

/// More threads than this do not make memory faster.
#[cfg(all(feature = "std", feature = "fast-copies"))]
const MOST: usize = 8;

/// How many threads should share a copy of so many bytes in so many pieces.
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
    // Asking takes as long as a copy of a megabyte.
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

/// Calls `work` with the beginnings and ends of `parts` parts of `0..extent` at most, each on a thread of
/// its own where there is one. All but the last are multiples of `grain` long, where that leaves them nearly even.
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
            // There may be no thread to be had.
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

/// The beginning of memory that is written in parts.
#[derive(Clone, Copy)]
pub(crate) struct Place(pub(crate) *mut u8);

// SAFETY: an address. What is written there, and by whom, is up to those who turn it into a reference.
unsafe impl Sync for Place {}

impl Place {
    /// The address so many bytes on.
    pub(crate) fn at(self, bytes: usize) -> *mut u8 {
        self.0.wrapping_add(bytes)
    }
}
