//! Tensors of another extension built on dlbridge, which has its own copy of dlbridge.
//!
//! Each copy recognises only its own managed tensors. Its class carries a C function for the other copies, so that a
//! loop through two extensions keeps one owner: otherwise each turn would make each of them keep the other's last
//! tensor.
//!
//! - **Answer.** The function takes a valid managed tensor and returns the managed tensor that keeps the same memory,
//!   or NULL if it knows none. The result is valid as long as the argument. The function neither keeps nor changes
//!   the argument, and any thread may call it.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

use dlbridge::sys::DLManagedTensorVersioned;
use dlbridge::{Access, ArcTensor, RawParts, Tensor, TensorRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};

use crate::keepalive::{address_range, inner, is_within, root};

/// The name of the capsule in the class. It changes with [`Functions`], except for new fields at its end.
const NAME: &CStr = c"dlbridge.source.1";

/// A C function with the invariant Answer.
pub(super) type KeeperOf =
    unsafe extern "C" fn(*mut DLManagedTensorVersioned) -> *mut DLManagedTensorVersioned;

/// The functions that a copy of dlbridge offers to the others, as long as the process lives.
#[repr(C)]
struct Functions {
    /// The size of this struct in bytes; that of an older copy is smaller.
    size: usize,
    keeper_of: KeeperOf,
}

static OURS: Functions = Functions { size: size_of::<Functions>(), keeper_of };

/// The capsule in our class.
pub(crate) fn capsule(py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
    // SAFETY: `OURS` is a static, and has the type that the name stands for.
    unsafe { PyCapsule::new_with_pointer(py, NonNull::from(&OURS).cast(), NAME) }
}

/// The function in a type of another copy.
pub(super) fn function_of(object_type: &Bound<'_, PyType>) -> PyResult<Option<KeeperOf>> {
    let attribute = object_type.getattr_opt(intern!(object_type.py(), "__dlbridge_source__"))?;
    let capsule = attribute.and_then(|attribute| attribute.cast_into_exact::<PyCapsule>().ok());
    let Some(capsule) = capsule.filter(|capsule| capsule.is_valid_checked(Some(NAME))) else {
        return Ok(None);
    };
    let functions = capsule.pointer_checked(Some(NAME))?.cast::<Functions>();
    // SAFETY: the name shows that these are `Functions`, which begin with their size.
    let size = unsafe { functions.cast::<usize>().read() };
    if size < size_of::<Functions>() {
        return Ok(None);
    }
    // SAFETY: the size shows that all fields of ours are present.
    Ok(Some(unsafe { functions.as_ref() }.keeper_of))
}

/// Returns the tensor; if a tensor of this library keeps its memory, with that tensor as its owner.
#[cold]
pub(super) fn rooted(tensor: Tensor, keeper_of: KeeperOf) -> Tensor {
    let Some(source) = source(&tensor, keeper_of) else { return tensor };
    let parts = RawParts {
        data: tensor.data(),
        dtype: tensor.dtype(),
        device: tensor.device(),
        byte_offset: tensor.byte_offset(),
        access: tensor.access(),
        subbyte_padded: tensor.is_subbyte_padded(),
    };
    // SAFETY: the elements of `tensor`, which lie within those of the source (Within of `keepalive.rs`) and are
    // writable only if the source's are. The producer's promise about other writers still holds: they are the same.
    let rooted =
        unsafe { Tensor::from_raw_parts(source, parts, tensor.shape(), Some(tensor.strides())) };
    rooted.unwrap_or(tensor)
}

/// Our tensor that keeps the memory of another copy's tensor.
fn source(tensor: &Tensor, keeper_of: KeeperOf) -> Option<ArcTensor> {
    let theirs = tensor.foreign().filter(|_| tensor.access() != Access::Exclusive)?;
    // SAFETY: Answer: the managed tensor is valid as long as `tensor`.
    let keeper = NonNull::new(unsafe { keeper_of(theirs.as_ptr()) })?;
    let source = |keeper: &Tensor| {
        let source = root(inner(keeper)?);
        let is_same_device = source.device() == tensor.device();
        let may_write = !keeper.is_read_only() && !source.is_read_only();
        let bytes = address_range(&TensorRef::from(tensor));
        (is_same_device && (tensor.is_read_only() || may_write) && is_within(&bytes, &source))
            .then_some(source)
    };
    // SAFETY: Answer: the result is valid, because `tensor` is alive.
    unsafe { Tensor::with_raw(keeper, source) }.flatten()
}

/// # Safety
/// `managed` is NULL or a valid managed tensor.
unsafe extern "C" fn keeper_of(
    managed: *mut DLManagedTensorVersioned,
) -> *mut DLManagedTensorVersioned {
    let keeper = || {
        let keeper = |tensor: &Tensor| root(inner(tensor)?).foreign();
        // SAFETY: the caller promises NULL or a valid managed tensor. It keeps the root, which keeps the result
        // (Answer).
        unsafe { Tensor::with_raw(NonNull::new(managed)?, keeper) }.flatten()
    };
    // A panic must not cross into another extension, and leaves no broken state here.
    let keeper = catch_unwind(AssertUnwindSafe(keeper)).ok().flatten();
    keeper.map_or(ptr::null_mut(), NonNull::as_ptr)
}
