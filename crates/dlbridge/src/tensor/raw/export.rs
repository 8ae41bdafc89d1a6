//! Tensors on their way out: lent many times, and as legacy managed tensors.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU8;

use dlbridge_sys::{DLManagedTensor, DLManagedTensorDeleter, DLPACK_FLAG_BITMASK_READ_ONLY};

use crate::block::RawParts;
use crate::block::{Draft, Managed, Undescribed, no_unwind};
use crate::tensor::raw::owner::within;
use crate::{Access, DataType, Error, MAX_NDIM, Result, Tensor, TensorRef};

/// A block that holds the tensor through a shared handle. Shape and strides stay where they are, in
/// the block of the tensor that owns the memory, which the handle keeps alive (Dims).
///
/// What was lent before is lent on, not lent anew: else a chain of such tensors would grow with
/// every turn, and take as deep a stack to drop.
pub(crate) fn lend(tensor: &Arc<Tensor>) -> Managed {
    let marks = tensor.managed().marks().lent();
    let description = *tensor.managed().tensor();
    let (owner, dims_end) = match source(tensor) {
        // A slice of what was lent has dims of its own, which end with it.
        Some(source) => (Arc::clone(source), tensor.managed().has_dims()),
        None => (Arc::clone(tensor), false),
    };
    if !dims_end {
        // SAFETY: every invariant of the description holds as long as the tensor that owns the memory
        // lives, dims included; it is the owner.
        return unsafe { Draft::new(owner, 0).finish_with_dims(description, marks) };
    }
    let mut draft = Draft::new(owner, tensor.ndim());
    let axes = tensor.shape().iter().copied().zip(tensor.strides().iter().copied());
    draft.set_axes(axes).expect("measured when the tensor was made");
    // SAFETY: as above, with dims of its own.
    unsafe { draft.finish(description, marks, None) }
}

/// The tensor that a tensor was lent from, if what is lent of the second one may hold the first one instead.
fn source(tensor: &Arc<Tensor>) -> Option<&Arc<Tensor>> {
    let source = tensor.managed().owner::<Arc<Tensor>>()?;
    let holds = match tensor.access() {
        // It was declared exclusive since: its holder must be alone as long as it lives (Exclusive).
        Access::Exclusive => false,
        // It was declared immutable since, unless the source is immutable too: the promise ends with it (Immutable).
        Access::Immutable => source.access() == Access::Immutable,
        Access::Shared | Access::ReadOnly => true,
    };
    holds.then_some(source)
}

/// A second tensor over the memory of a first, read-only, because the first is still there.
pub(crate) fn share(tensor: &Arc<Tensor>) -> Managed {
    let mut managed = lend(tensor);
    managed.set_read_only();
    managed
}

/// A tensor of another dtype over some bytes of a first, adjacent in C order, read-only.
pub(crate) fn share_bytes(
    tensor: &Arc<Tensor>,
    dtype: DataType,
    shape: &[usize],
    byte_offset: usize,
) -> Result<Managed> {
    if shape.len() > MAX_NDIM {
        return Err(Error::InvalidNdim { ndim: shape.len() as i64 });
    }
    let len = TensorRef::from(&**tensor).as_bytes()?.len();
    // The tensor's own pointer: one out of a reference would not survive a write by the producer.
    let bytes = ptr::slice_from_raw_parts_mut(tensor.data().cast::<u8>(), len);
    // No chain grows: see `lend`.
    let owner = source(tensor).unwrap_or(tensor);
    let mut block = Undescribed::new(Arc::clone(owner), shape.len());
    let elements = block.set_dims(shape, None::<&[i64]>)?;
    let data = within(bytes, (dtype, false), elements, byte_offset)?;
    let access = match tensor.access() {
        Access::Immutable => Access::Immutable,
        Access::Exclusive | Access::Shared | Access::ReadOnly => Access::ReadOnly,
    };
    let parts = RawParts { access, ..RawParts::new(data.cast(), dtype) };
    // SAFETY: Data, Calm and Immutable of the tensor, which the owner keeps; the elements are within its bytes.
    unsafe { block.describe(&parts, elements, None) }
}

/// What a legacy managed tensor keeps alive.
enum Held {
    Owned(Managed),
    Lent(Arc<Tensor>),
}

#[repr(C)]
struct LegacyBlock {
    managed: DLManagedTensor,
    held: Held,
}

/// Marks a legacy managed tensor as made here; see `BRAND` in `block/`.
static BRAND: AtomicU8 = AtomicU8::new(0);
static DELETER: DLManagedTensorDeleter = delete;

fn brand() -> *mut c_void {
    BRAND.as_ptr().cast()
}

/// Frees a legacy block. NULL is ignored.
///
/// # Safety
/// `managed` is NULL or came out of `legacy`, and is not used afterwards.
#[inline(never)]
unsafe extern "C" fn delete(managed: *mut DLManagedTensor) {
    if managed.is_null() {
        return;
    }
    // SAFETY: `legacy` made it from such a box, and the caller gives it up.
    let block = unsafe { Box::from_raw(managed.cast::<LegacyBlock>()) };
    no_unwind(|| drop(block));
}

/// Refuses what the legacy struct cannot say.
fn check_expressible(managed: &Managed) -> Result<()> {
    let flags = managed.flags();
    if flags & DLPACK_FLAG_BITMASK_READ_ONLY != 0 {
        return Err(Error::LegacyReadOnly);
    }
    let dtype = DataType::from(managed.tensor().dtype);
    if dtype.is_subbyte() && Access::subbyte_padded(flags) {
        return Err(Error::LegacySubbytePadded);
    }
    Ok(())
}

fn legacy(held: Held) -> NonNull<DLManagedTensor> {
    let dl_tensor = match &held {
        Held::Owned(managed) => *managed.tensor(),
        Held::Lent(tensor) => *tensor.managed().tensor(),
    };
    let managed = DLManagedTensor { dl_tensor, manager_ctx: brand(), deleter: Some(DELETER) };
    NonNull::from(Box::leak(Box::new(LegacyBlock { managed, held }))).cast()
}

/// Turns a tensor into a legacy managed tensor, or gives it back with the reason.
pub(crate) fn into_raw_legacy(
    managed: Managed,
) -> Result<NonNull<DLManagedTensor>, (Managed, Error)> {
    match check_expressible(&managed) {
        Ok(()) => Ok(legacy(Held::Owned(managed))),
        Err(error) => Err((managed, error)),
    }
}

/// Lends a tensor as a legacy managed tensor.
pub(crate) fn lend_legacy(tensor: Arc<Tensor>) -> Result<NonNull<DLManagedTensor>> {
    check_expressible(tensor.managed())?;
    Ok(legacy(Held::Lent(tensor)))
}

/// Takes a tensor back out of a legacy managed tensor, if it was made here.
///
/// # Safety
/// `managed` is valid, and if it is one of ours it is given up.
pub(crate) unsafe fn recognise_legacy(managed: NonNull<DLManagedTensor>) -> Option<Managed> {
    // SAFETY: the caller guarantees a valid struct; both fields are plain data.
    let (ctx, deleter) = unsafe { ((*managed.as_ptr()).manager_ctx, (*managed.as_ptr()).deleter) };
    if !(deleter.is_some_and(|f| ptr::fn_addr_eq(f, DELETER)) && ctx == brand()) {
        return None;
    }
    // SAFETY: brand and deleter are ours, so `legacy` made it from such a box; the caller gives up one of ours.
    let block = unsafe { Box::from_raw(managed.cast::<LegacyBlock>().as_ptr()) };
    Some(match block.held {
        Held::Owned(managed) => managed,
        Held::Lent(tensor) => lend(&tensor),
    })
}
