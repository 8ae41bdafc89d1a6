//! A counting allocator: the number of a row's allocations is part of its result.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator with a count. Counting costs one addition to a thread-local cell in every row, so it
/// cancels when the source's row is subtracted.
pub(crate) struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of blocks that this thread has allocated.
pub(crate) fn count() -> u64 {
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
