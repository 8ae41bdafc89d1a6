//! An allocator that counts what each thread allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNTED: Cell<usize> = const { Cell::new(0) };
    static LEAST: Cell<usize> = const { Cell::new(0) };
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, with counts per thread. A test makes it the global one.
#[derive(Debug)]
pub struct Counting;

impl Counting {
    fn count(size: usize) {
        COUNTED.set(COUNTED.get() + usize::from(size >= LEAST.get()));
    }
}

// SAFETY: forwards to the system's allocator. The counters need no initialisation and no drop, so they do not
// allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count(layout.size());
        LIVE.set(LIVE.get() + 1);
        // SAFETY: `GlobalAlloc` has the same contract for both allocators.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::count(size);
        // SAFETY: `alloc` returned the memory, and so did the system's allocator.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - 1);
        // SAFETY: `alloc` returned the memory, and so did the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Returns how often `f` allocates. It must free all that it allocates.
pub fn allocations(f: impl FnOnce()) -> usize {
    large_allocations(0, f)
}

/// Returns how often `f` allocates `least` bytes or more. It must free all that it allocates.
pub fn large_allocations(least: usize, f: impl FnOnce()) -> usize {
    let (before, live) = (COUNTED.get(), LIVE.get());
    LEAST.set(least);
    f();
    assert_eq!(LIVE.get(), live, "each allocation is freed once");
    COUNTED.get() - before
}
