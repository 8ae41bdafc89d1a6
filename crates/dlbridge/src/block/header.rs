//! What a block begins with, and what drops its owner and frees it.

use alloc::alloc::dealloc;
use core::alloc::Layout;
use core::any::TypeId;
use core::ffi::c_void;
#[cfg(feature = "std")]
use core::mem;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU8;

use dlbridge_sys::DLManagedTensorVersioned;

/// Tells from the bytes of an element whether they are a value; see
/// [`Element::CHECK`](crate::Element::CHECK).
pub(crate) type Check = fn(&[u8]) -> bool;

/// What the deleter knows of an owner whose type it does not know.
pub(super) struct VTable {
    /// The type of the owner. A function, because `TypeId::of` is no constant yet.
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
    /// The number of `i64` at the end of the block.
    pub(super) dims: u32,
    /// True if nothing writes the data until the owner is dropped (Immutable).
    pub(super) immutable: bool,
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

    /// Drops the owner and frees the block. Here the owner's type is known: where its drop cannot
    /// panic, the compiler leaves out what catches a panic.
    ///
    /// # Safety
    /// `header` begins a `Block<O>` whose owner is initialised; it is not used afterwards.
    unsafe extern "C" fn destroy(header: NonNull<Header>) {
        let block = header.cast::<Self>().as_ptr();
        // SAFETY: Block: the header is initialised and the block is ours alone.
        let layout = Self::VTABLE.layout(unsafe { (*block).header.dims } as usize);
        let free = Free { header, layout };
        // SAFETY: Block: the owner is initialised; it is dropped once, because the block is freed right behind. Send: any
        // thread may do this.
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
        // SAFETY: the alignment is that of a layout. At most 2 * MAX_NDIM dims (Dims) behind the size of
        // a type, which is at most half of the address space but for them.
        unsafe { Layout::from_size_align_unchecked(size, self.layout.align()) }
    }
}

/// Marks a managed tensor as made here. Its address stands in `manager_ctx`, which must not be
/// NULL and which only the deleter's side ever reads. Writable, so that no linker folds it with
/// another.
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
        // SAFETY: made by those who give up the block, whether they have dropped its owner or moved
        // it; the layout is the one it was allocated with.
        unsafe { dealloc(self.header.as_ptr().cast(), self.layout) }
    }
}

/// Runs the drop of an owner, whose panic must not cross the C boundary: it is reported by the
/// panic hook and ends here. Without `std` it aborts, as a panic out of `extern "C"` does.
pub(crate) fn no_unwind(f: impl FnOnce()) {
    #[cfg(feature = "std")]
    {
        use std::panic::{AssertUnwindSafe, catch_unwind};
        // The payload's own drop may panic in turn; what that one throws is left alone.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(f))
            && let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload)))
        {
            mem::forget(payload);
        }
    }
    #[cfg(not(feature = "std"))]
    f();
}
