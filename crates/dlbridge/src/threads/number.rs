//! The number of threads of copies.

/// More threads than this do not make memory faster.
#[cfg(all(feature = "std", feature = "fast-copies"))]
const DEFAULT_MOST: usize = 8;

/// Returns the largest number of threads for a copy, including the thread that calls it. The default is the number of
/// processors that this process may use, at most 8.
///
/// ```
/// assert!(dlbridge::num_threads() >= 1);
/// ```
pub fn num_threads() -> usize {
    #[cfg(all(feature = "std", feature = "fast-copies"))]
    {
        match SET.load(core::sync::atomic::Ordering::Relaxed) {
            // Tests use several threads on any machine.
            0 if cfg!(any(test, miri)) => 3,
            0 => processors().min(DEFAULT_MOST),
            set => set,
        }
    }
    #[cfg(not(all(feature = "std", feature = "fast-copies")))]
    1
}

/// Sets the result of [`num_threads`].
#[cfg(all(feature = "std", feature = "fast-copies"))]
pub(super) fn set(threads: usize) {
    SET.store(threads, core::sync::atomic::Ordering::Relaxed);
}

/// The number that was set, or 0.
#[cfg(all(feature = "std", feature = "fast-copies"))]
static SET: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);

/// The number of processors that this process may use.
#[cfg(all(feature = "std", feature = "fast-copies"))]
pub(super) fn processors() -> usize {
    use core::sync::atomic::{AtomicUsize, Ordering};
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
