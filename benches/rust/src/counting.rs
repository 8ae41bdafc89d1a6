//! An allocator that counts: how often a row asks for memory is part of its result.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator. The count is one addition to a cell of the thread, in every row alike, so that it
/// cancels when the source's row is subtracted.
pub(crate) struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// How many blocks this thread has asked for.
pub(crate) fn count() -> u64 {
    COUNT.get()
}

// SAFETY: every call goes to the system's allocator as it came; the cell needs no memory of its own and has
// no destructor, so counting does not allocate.
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
