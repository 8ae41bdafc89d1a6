//! Tensors on their way out: lent many times, and as legacy managed tensors.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ffi::c_void;
use core::ptr::{self, NonNull};

use dlbridge_sys::{
    DLManagedTensor, DLManagedTensorDeleter, DLPACK_FLAG_BITMASK_IS_COPIED,
    DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, DLPACK_FLAG_BITMASK_READ_ONLY,
};

use super::block::{Managed, no_unwind};
use crate::{Error, Result, Tensor};

/// A block that holds the tensor through a shared handle. Shape and strides stay where they are,
/// in the tensor's own block, which the handle keeps alive (Dims).
pub(crate) fn lend(tensor: Arc<Tensor>) -> Managed {
    let flags = tensor.flags() & !DLPACK_FLAG_BITMASK_IS_COPIED;
    let description = *tensor.managed().tensor();
    let mut managed = Managed::new(tensor, 0);
    // Every invariant of the description holds as long as the tensor lives; it is the owner.
    // Without IS_COPIED the lent tensor claims no exclusivity.
    *managed.tensor_mut() = description;
    managed.set_flags(flags);
    managed
}

/// A second tensor over the memory of a first, read-only, because the first is still there.
pub(crate) fn share(tensor: Arc<Tensor>) -> Managed {
    let mut managed = lend(tensor);
    managed.set_flags(managed.flags() | DLPACK_FLAG_BITMASK_READ_ONLY);
    managed
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

/// Marks a legacy managed tensor as made here; see `BRAND` in `block.rs`.
static BRAND: u8 = 0;
static DELETER: DLManagedTensorDeleter = delete;

fn brand() -> *mut c_void {
    (&raw const BRAND).cast_mut().cast()
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
fn check_expressible(flags: u64) -> Result<()> {
    if flags & DLPACK_FLAG_BITMASK_READ_ONLY != 0 {
        return Err(Error::LegacyReadOnly);
    }
    if flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0 {
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
    match check_expressible(managed.flags()) {
        Ok(()) => Ok(legacy(Held::Owned(managed))),
        Err(error) => Err((managed, error)),
    }
}

/// Lends a tensor as a legacy managed tensor.
pub(crate) fn lend_legacy(tensor: Arc<Tensor>) -> Result<NonNull<DLManagedTensor>> {
    check_expressible(tensor.flags())?;
    Ok(legacy(Held::Lent(tensor)))
}

/// Takes a tensor back out of a legacy managed tensor, if it was made here.
///
/// # Safety
/// `managed` is valid, and if it is one of ours it is given up.
pub(super) unsafe fn recognise_legacy(managed: NonNull<DLManagedTensor>) -> Option<Managed> {
    // SAFETY: valid by contract.
    let (ctx, deleter) = unsafe { ((*managed.as_ptr()).manager_ctx, (*managed.as_ptr()).deleter) };
    if !(deleter.is_some_and(|f| ptr::fn_addr_eq(f, DELETER)) && ctx == brand()) {
        return None;
    }
    // SAFETY: ours, so `legacy` made it from such a box; given up by contract.
    let block = unsafe { Box::from_raw(managed.cast::<LegacyBlock>().as_ptr()) };
    Some(match block.held {
        Held::Owned(managed) => managed,
        Held::Lent(tensor) => lend(tensor),
    })
}
