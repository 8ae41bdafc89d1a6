//! The header of a block, and the functions that drop its owner and free it.

use alloc::alloc::dealloc;
use core::alloc::Layout;
use core::any::TypeId;
use core::ffi::c_void;
#[cfg(feature = "std")]
use core::mem;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU32};

use dlbridge_sys::DLManagedTensorVersioned;

/// Returns true if the bytes of an element are a valid value; see [`Element::CHECK`](crate::Element::CHECK).
pub(crate) type Check = fn(&[u8]) -> bool;

/// The type-erased facts about an owner that the deleter needs.
pub(super) struct VTable {
    /// The type of the owner. A function, because `TypeId::of` is not const yet.
    pub(super) type_id: fn() -> TypeId,
    /// Drops the owner in place and frees the block.
    pub(super) destroy: unsafe extern "C" fn(NonNull<Header>),
    /// The layout of the block without the dims.
    pub(super) layout: Layout,
}

#[repr(C)]
pub(super) struct Header {
    pub(super) managed: DLManagedTensorVersioned,
    pub(super) vtable: &'static VTable,
    /// The number of handles (Count).
    pub(super) count: AtomicU32,
    /// The number of `i64` at the end of the block.
    pub(super) dims: u16,
    /// True if nothing writes the data until the owner is dropped (Immutable).
    pub(super) immutable: bool,
    /// True if the owner's drop cannot run another deleter, so it needs no bound on the stack.
    pub(super) is_leaf: bool,
    /// The check that the elements must pass before the owner may be returned.
    pub(super) check: Option<Check>,
}

#[repr(C)]
pub(super) struct Block<O> {
    pub(super) header: Header,
    pub(super) owner: MaybeUninit<O>,
}

impl<O: 'static> Block<O> {
    pub(super) const VTABLE: VTable =
        VTable { type_id: TypeId::of::<O>, destroy: Self::destroy, layout: Layout::new::<Self>() };

    /// Drops the owner and frees the block. Generic over the owner, so the compiler omits the panic handler for types
    /// whose drop cannot panic.
    ///
    /// # Safety
    /// `header` begins a `Block<O>` whose owner is initialised; it is not used afterwards.
    unsafe extern "C" fn destroy(header: NonNull<Header>) {
        let block = header.cast::<Self>().as_ptr();
        // SAFETY: Block: the header is initialised, and only this handle has the block.
        let layout = Self::VTABLE.layout(unsafe { (*block).header.dims } as usize);
        let free = Free { header, layout };
        // SAFETY: Block: the owner is initialised; it is dropped once, because the block is freed right afterwards.
        // Send: any thread may do this.
        no_unwind(|| unsafe { (*block).owner.assume_init_drop() });
        drop(free);
    }
}

impl VTable {
    /// The layout of a block. The dims follow the fixed part, whose size is a multiple of its
    /// alignment, which is at least that of an `i64`.
    pub(super) fn layout(&self, dims: usize) -> Layout {
        let size = self.layout.size() + dims * size_of::<i64>();
        debug_assert!(Layout::from_size_align(size, self.layout.align()).is_ok());
        // SAFETY: the alignment is that of a layout. At most 2 * MAX_NDIM dims (Dims) follow a type whose size, without
        // them, is at most half of the address space.
        unsafe { Layout::from_size_align_unchecked(size, self.layout.align()) }
    }
}

/// Marks a managed tensor of this crate: `manager_ctx` holds its address. That field must not be NULL, and only the
/// deleter's side reads it. Writable, so that no linker merges it with another static.
static BRAND: AtomicU8 = AtomicU8::new(0);

pub(super) fn brand() -> *mut c_void {
    BRAND.as_ptr().cast()
}

/// Frees a block when dropped.
pub(super) struct Free {
    pub(super) header: NonNull<Header>,
    pub(super) layout: Layout,
}

impl Drop for Free {
    fn drop(&mut self) {
        // SAFETY: code makes a `Free` only when it gives up the block, after dropping the owner or moving it out; the
        // layout is that of the allocation.
        unsafe { dealloc(self.header.as_ptr().cast(), self.layout) }
    }
}

/// Runs the drop of an owner and stops its panics, which must not cross the C boundary. The panic hook reports them.
/// Without `std` a panic aborts, as any panic out of `extern "C"` does.
pub(crate) fn no_unwind(f: impl FnOnce()) {
    #[cfg(feature = "std")]
    {
        use std::panic::{AssertUnwindSafe, catch_unwind};
        // The payload's own drop may panic too; that second payload is leaked.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(f))
            && let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload)))
        {
            mem::forget(payload);
        }
    }
    #[cfg(not(feature = "std"))]
    f();
}
