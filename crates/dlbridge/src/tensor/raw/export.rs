//! Exports tensors many times, and as legacy managed tensors.

use alloc::boxed::Box;
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU8;

use dlbridge_sys::{DLManagedTensor, DLManagedTensorDeleter, DLPACK_FLAG_BITMASK_READ_ONLY};

use crate::block::RawParts;
use crate::block::{Builder, Managed, Undescribed, no_unwind};
use crate::tensor::raw::owner::within;
use crate::{Access, ArcTensor, DataType, Error, MAX_NDIM, Result, TensorRef};

/// Makes a block that holds the tensor through a shared handle. Shape and strides stay in the block of the tensor that
/// owns the memory, which the handle keeps alive (Dims).
///
/// If the tensor itself holds such a handle, the new block clones that handle instead. Otherwise each round trip would
/// lengthen a chain of tensors, and dropping it would need a deeper stack.
pub(crate) fn to_raw(tensor: &ArcTensor) -> Managed {
    let marks = tensor.managed().marks().without_exclusive();
    let description = *tensor.managed().tensor();
    let (owner, dims_end) = match source(tensor) {
        // A slice of an exported tensor has its own dims, which are freed with it.
        Some(source) => (source.clone(), tensor.managed().has_dims()),
        None => (tensor.clone(), false),
    };
    if !dims_end {
        // SAFETY: every invariant of the description, dims included, holds while the tensor that owns the memory lives.
        // That tensor is the owner of this block.
        return unsafe { Builder::new(owner, 0).finish_with_dims(description, marks) };
    }
    let mut builder = Builder::new(owner, tensor.ndim());
    let axes = tensor.shape().iter().copied().zip(tensor.strides().iter().copied());
    builder.set_axes(axes).unwrap_or_else(|_| panic!("measured when the tensor was made"));
    // SAFETY: every invariant of the description holds while the tensor that owns the memory lives, which is the owner
    // of this block. `set_axes` wrote the dims (Dims).
    unsafe { builder.finish(description, marks, None, false) }
}

/// The tensor that `tensor` shares its memory with, if a new export may hold that one instead of `tensor`. A
/// `ArcTensor` as owner has the elements (the contract of `from_raw_parts`).
fn source(tensor: &ArcTensor) -> Option<&ArcTensor> {
    let source = tensor.managed().owner::<ArcTensor>()?;
    let holds = match tensor.access() {
        // It was declared exclusive later: its holder must be the only user while it lives (Exclusive).
        Access::Exclusive => false,
        // If the source is not immutable, `tensor` was declared immutable later, and that promise ends with `tensor`
        // (Immutable).
        Access::Immutable => source.access() == Access::Immutable,
        Access::Shared | Access::ReadOnly => true,
    };
    holds.then_some(source)
}

/// Makes a second tensor over the memory of a first. It is read-only, because the first still exists.
pub(crate) fn share(tensor: &ArcTensor) -> Managed {
    let mut managed = to_raw(tensor);
    managed.set_read_only();
    managed
}

/// Makes a read-only tensor of another dtype over some bytes of a first, contiguous in C order.
pub(crate) fn share_bytes(
    tensor: &ArcTensor,
    dtype: DataType,
    shape: &[usize],
    byte_offset: usize,
) -> Result<Managed> {
    if shape.len() > MAX_NDIM {
        return Err(Error::InvalidNdim { ndim: shape.len() as i64 });
    }
    // Without a reference to the bytes: other code may write them.
    let whole = TensorRef::from(&**tensor);
    whole.check_host_accessible()?;
    if !whole.is_c_contiguous() {
        return Err(Error::NotContiguous);
    }
    let len = usize::try_from(whole.nbytes()).map_err(|_| Error::TooLarge)?;
    // The tensor's own pointer: a write by the producer would invalidate a pointer made of a reference.
    let bytes = ptr::slice_from_raw_parts_mut(tensor.data().cast::<u8>(), len);
    // As in `to_raw`, the source, so that no chain grows.
    let owner = source(tensor).unwrap_or(tensor);
    let mut block = Undescribed::new(owner.clone(), shape.len());
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

/// The tensor that a legacy managed tensor keeps alive.
enum Held {
    Owned(Managed),
    Shared(ArcTensor),
}

#[repr(C)]
struct LegacyBlock {
    managed: DLManagedTensor,
    held: Held,
}

/// Marks a legacy managed tensor of this crate; see `BRAND` in `block/`.
static BRAND: AtomicU8 = AtomicU8::new(0);
static DELETER: DLManagedTensorDeleter = delete;

fn brand() -> *mut c_void {
    BRAND.as_ptr().cast()
}

/// Frees a legacy block. NULL is ignored.
///
/// # Safety
/// `managed` is NULL or a result of `legacy`, and is not used afterwards.
#[inline(never)]
unsafe extern "C" fn delete(managed: *mut DLManagedTensor) {
    if managed.is_null() {
        return;
    }
    // SAFETY: `legacy` made it from a `Box<LegacyBlock>`, and the caller gives it up.
    let block = unsafe { Box::from_raw(managed.cast::<LegacyBlock>()) };
    no_unwind(|| drop(block));
}

/// Refuses tensors that the legacy struct cannot describe.
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
        Held::Shared(tensor) => *tensor.managed().tensor(),
    };
    let managed = DLManagedTensor { dl_tensor, manager_ctx: brand(), deleter: Some(DELETER) };
    NonNull::from(Box::leak(Box::new(LegacyBlock { managed, held }))).cast()
}

/// Turns a tensor into a legacy managed tensor, or returns it with the reason.
pub(crate) fn into_raw_legacy(
    managed: Managed,
) -> Result<NonNull<DLManagedTensor>, (Managed, Error)> {
    match check_expressible(&managed) {
        Ok(()) => Ok(legacy(Held::Owned(managed))),
        Err(error) => Err((managed, error)),
    }
}

/// Exports a shared tensor as a legacy managed tensor.
pub(crate) fn to_raw_legacy(tensor: ArcTensor) -> Result<NonNull<DLManagedTensor>> {
    check_expressible(tensor.managed())?;
    Ok(legacy(Held::Shared(tensor)))
}

/// Returns the tensor of a legacy managed tensor, if this crate made it.
///
/// # Safety
/// `managed` is valid. If this crate made it, the caller gives it up.
pub(crate) unsafe fn recognise_legacy(managed: NonNull<DLManagedTensor>) -> Option<Managed> {
    // SAFETY: the caller guarantees a valid struct; both fields are plain data.
    let (ctx, deleter) = unsafe { ((*managed.as_ptr()).manager_ctx, (*managed.as_ptr()).deleter) };
    if !(deleter.is_some_and(|f| ptr::fn_addr_eq(f, DELETER)) && ctx == brand()) {
        return None;
    }
    // SAFETY: brand and deleter are this crate's, so `legacy` made it from a `Box<LegacyBlock>`; the caller gives up
    // such a tensor.
    let block = unsafe { Box::from_raw(managed.cast::<LegacyBlock>().as_ptr()) };
    Some(match block.held {
        Held::Owned(managed) => managed,
        Held::Shared(tensor) => to_raw(&tensor),
    })
}
