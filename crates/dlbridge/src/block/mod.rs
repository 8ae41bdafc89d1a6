//! The heap block behind every tensor: one allocation with the managed tensor, the owner, the extents and the strides.
//!
//! ```text
//! +---------------------------+--------------+---------+----------------+-----------------+
//! | DLManagedTensorVersioned  | VTable, ...  | owner   | ndim extents   | ndim strides    |
//! +---------------------------+--------------+---------+----------------+-----------------+
//! ^ C reads this                                        ^ t.shape        ^ t.strides
//! ```
//!
//! # Invariants
//!
//! The invariants of all memory that the core touches are stated here, once. SAFETY comments cite them by label.
//!
//! Let `m` be the `DLManagedTensorVersioned` that a [`Managed`] points at, and `t` its `dl_tensor`.
//!
//! - **Block.** `m` begins a heap block laid out as above. The `Managed` is the only handle on it, except for those
//!   that Count allows: no other code calls the deleter, and it has not run.
//! - **Count.** A `Managed` in an [`ArcTensor`](crate::ArcTensor) is one of as many as the block's `count` says,
//!   all of them in such types, which give it by `&` only. The last one alone is taken out, given by `&mut`, or dropped.
//!   Outside of these types the count is one.
//! - **Dims.** `0 <= t.ndim <= MAX_NDIM`; `t.shape` and `t.strides` are not NULL, are aligned and point at `ndim`
//!   initialised `i64`, which no code writes while the block lives. They are in the block itself or in one that the
//!   owner keeps alive.
//! - **Layout.** Extents are not negative; element count and byte extent fit an `isize`; address
//!   arithmetic within the byte extent does not wrap around the address space.
//! - **Data.** If the tensor has elements and its device is host-accessible, `t.byte_offset` is 0 and the byte extent
//!   around `t.data` lies in one allocation; every byte of every element is initialised and stays valid for reads until
//!   the owner is dropped, and for writes too unless `READ_ONLY` is set. Bytes between elements may hold anything; the
//!   core does not touch them. A tensor without elements has NULL `data`.
//! - **Calm.** Nothing writes the data while a view borrowed from the tensor is alive. For memory
//!   that Rust owns and does not export the types guarantee it; for foreign memory it is the contract
//!   of [`Tensor::from_raw`](crate::Tensor::from_raw), and for memory that
//!   [`ArcTensor::to_raw`](crate::ArcTensor::to_raw) exported, the duty of the code that passed it on.
//! - **Exclusive.** If `IS_COPIED` is set and `READ_ONLY` is not, only two parties read or write the data:
//!   the holder of the `Managed` and, while that is in an `ArcTensor`, the consumers it was exported to. So code
//!   that has it by `&mut` is its only user.
//! - **Immutable.** If the block's bit `immutable` is set, nothing writes the data until the owner is dropped or taken
//!   out of the block, and `READ_ONLY` is set. The bit comes from an owner that promises it, from exclusive data
//!   that its only holder gave up writing ([`Tensor::try_into_immutable`](crate::Tensor::try_into_immutable)), or
//!   from an unsafe promise ([`Tensor::assume_immutable`](crate::Tensor::assume_immutable)); never from a flag.
//! - **Dtype.** The dtype passed [`DataType::check`](crate::DataType::check).
//! - **Send.** The owner may be dropped on any thread.
//!
//! `view/raw.rs` adds **View** for typed views, `tensor_ref/raw/mod.rs` **Ref** for borrowed tensors of any
//! dtype, and `layout/slice.rs` **Slice** for layouts within a layout.

mod builder;
#[forbid(unsafe_code)]
mod count;
mod delete;
mod header;
#[forbid(unsafe_code)]
mod parts;
mod sliced;
mod take;
mod undescribed;

use core::any::TypeId;
use core::mem;
use core::ptr::{self, NonNull};
use core::slice;

use dlbridge_sys::{
    DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_IS_COPIED, DLPACK_FLAG_BITMASK_READ_ONLY,
    DLTensor,
};

pub(crate) use self::builder::Builder;
#[cfg(feature = "ndarray")]
pub(crate) use self::builder::DimsOut;
use self::delete::{DELETER, delete};
pub(crate) use self::header::Check;
pub(crate) use self::header::no_unwind;
use self::header::{Block, Header, brand};
pub(crate) use self::parts::Marks;
pub use self::parts::RawParts;
pub(crate) use self::undescribed::Undescribed;
use crate::Access;

/// The handle on a block. Dropping it runs the deleter.
pub(crate) struct Managed(NonNull<DLManagedTensorVersioned>);

// SAFETY: Send: the owner may be dropped on any thread; the rest is plain data.
unsafe impl Send for Managed {}
// SAFETY: shared access reads the dims and the description, which no code writes (Dims), and the owner only if it is
// `Sync` itself (`owner`); it changes the count, which is atomic.
unsafe impl Sync for Managed {}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: Block: the only handle, which ends here.
        unsafe { delete(self.0.as_ptr()) }
    }
}

impl Managed {
    /// Takes over a pointer that [`Managed::into_raw`] returned; `None` for a foreign pointer.
    ///
    /// # Safety
    /// `managed` points at a managed tensor of this major version. If it is a tensor of this crate, the caller gives up
    /// the handle.
    pub(crate) unsafe fn recognise(managed: NonNull<DLManagedTensorVersioned>) -> Option<Self> {
        // SAFETY: the caller guarantees a managed tensor of this major version; both fields have these places in it.
        let (ctx, deleter) =
            unsafe { ((*managed.as_ptr()).manager_ctx, (*managed.as_ptr()).deleter) };
        // A linker may merge the deleters of two versions of this crate; the brand's address stays unique.
        let ours = deleter.is_some_and(|f| ptr::fn_addr_eq(f, DELETER)) && ctx == brand();
        // Not `then_some`: that would make the handle of a foreign tensor too, and drop it.
        ours.then(|| Self(managed))
    }

    /// A second handle on the same block.
    ///
    /// # Safety
    /// Count allows it.
    #[inline]
    pub(crate) unsafe fn duplicate(&self) -> Self {
        Self(self.0)
    }

    /// Returns the pointer and gives up the handle.
    pub(crate) fn into_raw(self) -> NonNull<DLManagedTensorVersioned> {
        mem::ManuallyDrop::new(self).0
    }

    pub(crate) fn as_ptr(&self) -> *const DLManagedTensorVersioned {
        self.0.as_ptr()
    }

    pub(crate) fn tensor(&self) -> &DLTensor {
        // SAFETY: Block: initialised, and written through `&mut self` only.
        unsafe { &(*self.0.as_ptr()).dl_tensor }
    }

    fn tensor_mut(&mut self) -> &mut DLTensor {
        // SAFETY: Block: initialised. Count: `&mut self` is the only access.
        unsafe { &mut (*self.0.as_ptr()).dl_tensor }
    }

    pub(crate) fn flags(&self) -> u64 {
        // SAFETY: Block: initialised, and written through `&mut self` only.
        unsafe { (*self.0.as_ptr()).flags }
    }

    /// The flags, and the bit for immutable data.
    pub(crate) fn marks(&self) -> Marks {
        Marks { flags: self.flags(), immutable: self.header().immutable }
    }

    pub(crate) fn access(&self) -> Access {
        self.marks().access()
    }

    /// # Safety
    /// The flags hold for the data (Exclusive).
    unsafe fn set_flags(&mut self, flags: u64) {
        // SAFETY: Block: initialised. Count: `&mut self` is the only access.
        unsafe { (*self.0.as_ptr()).flags = flags }
    }

    /// # Safety
    /// The bit holds for the data (Immutable).
    unsafe fn set_immutable_bit(&mut self, immutable: bool) {
        // SAFETY: Block: initialised. Count: `&mut self` is the only access.
        unsafe { (*self.0.cast::<Header>().as_ptr()).immutable = immutable }
    }

    /// Sets the flag that only the holder uses the data.
    ///
    /// # Safety
    /// Only the holder uses the data (Exclusive).
    pub(crate) unsafe fn set_exclusive(&mut self) {
        // SAFETY: the caller guarantees what the new flag says.
        unsafe { self.set_flags(self.flags() | DLPACK_FLAG_BITMASK_IS_COPIED) };
    }

    /// Sets the flag that forbids consumers to write the data. It promises nothing about the producer.
    pub(crate) fn set_read_only(&mut self) {
        // SAFETY: the new flag forbids writes and says nothing about the data.
        unsafe { self.set_flags(self.flags() | DLPACK_FLAG_BITMASK_READ_ONLY) };
    }

    /// Marks the data as not written until the owner is dropped.
    ///
    /// # Safety
    /// Nothing writes the data until then (Immutable).
    pub(crate) unsafe fn set_immutable(&mut self) {
        self.set_read_only();
        // SAFETY: the caller guarantees what the bit says.
        unsafe { self.set_immutable_bit(true) };
    }

    pub(crate) fn shape(&self) -> &[i64] {
        let tensor = self.tensor();
        // SAFETY: Dims: `ndim` initialised extents, which no code writes while the block lives.
        unsafe { slice::from_raw_parts(tensor.shape, tensor.ndim as usize) }
    }

    pub(crate) fn strides(&self) -> &[i64] {
        let tensor = self.tensor();
        // SAFETY: Dims: `ndim` initialised strides, which no code writes while the block lives.
        unsafe { slice::from_raw_parts(tensor.strides, tensor.ndim as usize) }
    }

    /// The owner, in its place in the block.
    ///
    /// # Safety
    /// The owner is an `O`.
    pub(crate) unsafe fn owner_mut<O: 'static>(&mut self) -> &mut O {
        // SAFETY: the caller guarantees that the owner is an `O`, so this is a `Block<O>`, whose owner is initialised
        // (Block); `&mut self` is the only access.
        unsafe { (*self.0.cast::<Block<O>>().as_ptr()).owner.assume_init_mut() }
    }

    fn header(&self) -> &Header {
        // SAFETY: Block: initialised, and written through `&mut self` only, except for the count, which is atomic.
        unsafe { self.0.cast::<Header>().as_ref() }
    }

    /// True if shape and strides are in this block, false if they are in one that the owner keeps alive.
    pub(crate) fn has_dims(&self) -> bool {
        self.header().dims != 0
    }

    pub(crate) fn owner_is<O: 'static>(&self) -> bool {
        (self.header().vtable.type_id)() == TypeId::of::<O>()
    }

    /// The owner, if it is an `O`.
    pub(crate) fn owner<O: Sync + 'static>(&self) -> Option<&O> {
        self.owner_is::<O>().then(|| {
            // SAFETY: the type was compared; the owner is initialised (Block), and `Sync`, so any thread may read it.
            unsafe { (*self.0.cast::<Block<O>>().as_ptr()).owner.assume_init_ref() }
        })
    }
}
