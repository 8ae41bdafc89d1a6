//! The deleter: it drops the owner and frees the block, with a bounded stack.
//!
//! An owner may keep another tensor alive, whose owner keeps another one: repeated round trips through a library that
//! does not return the owner make such a chain, of any length. So a deleter that runs inside [`DEEPEST`] others on its
//! thread queues its block, and the enclosing deleter drops the queued blocks. An owner of plain memory cannot run
//! another deleter, so its block is dropped at once. The blocks hold the links of the queue, so it needs no allocation.
//!
//! Without the feature `std` thread-local variables are missing: each deleter drops its block at once, inside the
//! others.

#[cfg(feature = "std")]
use core::cell::Cell;
#[cfg(feature = "std")]
use core::ptr;
use core::ptr::NonNull;

use dlbridge_sys::{DLManagedTensorVersioned, DLManagedTensorVersionedDeleter};

use super::header::Header;

/// The one deleter of every block. Not generic: a linker may merge generic functions, and `Managed::recognise` compares
/// this address.
pub(super) static DELETER: DLManagedTensorVersionedDeleter = delete;

/// Drops the owner and frees the block. NULL is ignored.
///
/// # Safety
/// `managed` is NULL or begins a block that is not used afterwards (Block).
#[inline(never)]
pub(super) unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    let Some(header) = NonNull::new(managed.cast::<Header>()) else { return };
    // SAFETY: Block: the header is initialised.
    if unsafe { header.as_ref() }.is_leaf {
        // SAFETY: the caller guarantees a block that is not used afterwards.
        return unsafe { destroy(header) };
    }
    #[cfg(feature = "std")]
    // SAFETY: the caller guarantees a block that is not used afterwards; the pointer is not NULL.
    if DROPS.try_with(|drops| unsafe { drops.run(header) }).is_ok() {
        return;
    }
    // Reached only at the end of a thread, on systems where std allocates thread-local variables and has already freed
    // them.
    // SAFETY: the caller guarantees a block that is not used afterwards. `try_with` returned an error, so it did not
    // call `run`, and the block still exists.
    unsafe { destroy(header) };
}

/// # Safety
/// That of [`delete`], for a pointer that is not NULL.
#[inline(always)]
unsafe fn destroy(header: NonNull<Header>) {
    // SAFETY: Block: the header is initialised, its vtable belongs to the owner's type, the owner is
    // initialised, and the block is not used again.
    unsafe { ((*header.as_ptr()).vtable.destroy)(header) }
}

/// How many deleters may run inside each other. Few, because the frames of other libraries lie between them. More than
/// one, so that a tensor dropped by an owner is usually gone before the owner's drop continues.
#[cfg(feature = "std")]
const DEEPEST: usize = 16;

/// The state of the deleters on this thread.
#[cfg(feature = "std")]
struct Drops {
    /// The number of deleters that run inside each other.
    running: Cell<usize>,
    /// The first of the queued blocks, or NULL. The `manager_ctx` of each is the address of the next.
    waiting: Cell<*mut Header>,
}

#[cfg(feature = "std")]
std::thread_local! {
    static DROPS: Drops = const {
        Drops { running: Cell::new(0), waiting: Cell::new(ptr::null_mut()) }
    };
}

#[cfg(feature = "std")]
impl Drops {
    /// # Safety
    /// That of [`delete`], for a pointer that is not NULL.
    #[inline(always)]
    unsafe fn run(&self, header: NonNull<Header>) {
        let running = self.running.get();
        if running >= DEEPEST - 1 {
            // SAFETY: the caller guarantees a block that is not used afterwards, and this call is the only use of it
            // here.
            return unsafe { self.run_deep(header) };
        }
        self.running.set(running + 1);
        // The count always goes down again: `VTable::destroy` is `extern "C"` and so never unwinds.
        // SAFETY: the caller guarantees a block that is not used afterwards, and this call is the only use of it here.
        unsafe { destroy(header) };
        self.count_down();
    }

    /// As [`run`](Self::run), for the deepest deleter that drops a block, and for deleters inside it, which queue their
    /// blocks.
    ///
    /// # Safety
    /// That of [`delete`], for a pointer that is not NULL.
    #[cold]
    #[inline(never)]
    unsafe fn run_deep(&self, header: NonNull<Header>) {
        if self.running.get() >= DEEPEST {
            let next = self.waiting.replace(header.as_ptr());
            // SAFETY: Block: initialised, and the caller gave up the only handle, so no code reads the brand that this
            // overwrites. The queue belongs to this thread.
            unsafe { (*header.as_ptr()).managed.manager_ctx = next.cast() };
            return;
        }
        self.running.set(self.running.get() + 1);
        // SAFETY: the caller guarantees a block that is not used afterwards. It is not in the queue, so the loop below
        // does not destroy it again.
        unsafe { destroy(header) };
        while let Some(header) = NonNull::new(self.waiting.get()) {
            // SAFETY: queued above under the contract of this function, with the address of the next one in
            // `manager_ctx`. It leaves the queue before it is destroyed, so no block is destroyed twice.
            unsafe {
                self.waiting.set((*header.as_ptr()).managed.manager_ctx.cast());
                destroy(header);
            }
        }
        self.count_down();
    }

    /// Subtracts one, instead of restoring the previous number: a coroutine may be suspended inside a deleter, and
    /// resume while others run.
    #[inline(always)]
    fn count_down(&self) {
        self.running.set(self.running.get() - 1);
    }
}
