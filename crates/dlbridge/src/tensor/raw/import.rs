//! Managed tensors from outside: validated once, then held in a block of ours.
//!
//! The description is copied, so that later reads of shape and strides are of our own memory; the
//! foreign struct becomes the owner, and its deleter runs when the owner is dropped, also when
//! validation fails.

use core::ptr::NonNull;

use dlbridge_sys::{
    DLManagedTensor, DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_IS_COPIED,
    DLPACK_FLAG_BITMASK_READ_ONLY, DLPACK_MAJOR_VERSION, DLTensor,
};

use crate::block::RawParts;
use crate::block::{Draft, Managed};
use crate::tensor::raw::export::recognise_legacy;
use crate::{Access, Error, MAX_NDIM, Result};

/// A foreign managed tensor; dropping it calls its deleter.
struct Foreign<M: Deleter>(NonNull<M>);

// SAFETY: Send: DLPack lets a consumer call the deleter on any thread.
unsafe impl<M: Deleter> Send for Foreign<M> {}
// SAFETY: shared access copies the pointer.
unsafe impl<M: Deleter> Sync for Foreign<M> {}

/// How to call the deleter of a managed tensor.
trait Deleter: 'static {
    /// # Safety
    /// The managed tensor is valid and not used afterwards.
    unsafe fn delete(this: *mut Self);
}

impl Deleter for DLManagedTensorVersioned {
    unsafe fn delete(this: *mut Self) {
        // SAFETY: the caller of `delete` guarantees a valid struct that is not used again. The deleter is where every version
        // has it, and a struct without one has nothing to free.
        unsafe { (*this).deleter.map(|deleter| call(deleter, this)) };
    }
}

impl Deleter for DLManagedTensor {
    unsafe fn delete(this: *mut Self) {
        // SAFETY: as above; the legacy struct has one version.
        unsafe { (*this).deleter.map(|deleter| call(deleter, this)) };
    }
}

/// Calls a deleter.
///
/// One that waits for the Python interpreter does not return when the interpreter goes meanwhile:
/// before version 3.14 Python ends the waiting thread by unwinding its stack, which Rust frames
/// would turn into an abort. The thread is stopped for good instead, as later versions do it.
///
/// # Safety
/// `deleter` is the one of `this`, which is valid and not used afterwards.
unsafe fn call<M>(deleter: unsafe extern "C" fn(*mut M), this: *mut M) {
    // SAFETY: the two types differ only in what the compiler assumes of unwinding.
    let deleter: unsafe extern "C-unwind" fn(*mut M) = unsafe { core::mem::transmute(deleter) };
    #[cfg(feature = "std")]
    let stop = Stop;
    // SAFETY: the caller passes the deleter of this struct, which is valid; nothing uses the struct afterwards, so the deleter
    // runs once.
    unsafe { deleter(this) };
    #[cfg(feature = "std")]
    core::mem::forget(stop);
}

/// Stops the thread for good when something that is no Rust panic unwinds it.
#[cfg(feature = "std")]
struct Stop;

#[cfg(feature = "std")]
impl Drop for Stop {
    fn drop(&mut self) {
        while !std::thread::panicking() {
            std::thread::park();
        }
    }
}

impl<M: Deleter> Drop for Foreign<M> {
    fn drop(&mut self) {
        // SAFETY: made from a pointer whose ownership was handed over (`from_raw`), once.
        unsafe { M::delete(self.0.as_ptr()) }
    }
}

/// The non-NULL, aligned pointer to a struct from outside.
fn checked<M>(pointer: *mut M) -> Result<NonNull<M>> {
    let pointer =
        NonNull::new(pointer).ok_or(Error::NullPointer { field: "the managed tensor" })?;
    match pointer.is_aligned() {
        true => Ok(pointer),
        false => Err(Error::MisalignedStruct { address: pointer.addr().get() }),
    }
}

/// Imports a versioned managed tensor.
///
/// # Safety
/// The contract of [`Tensor::from_raw`](crate::Tensor::from_raw).
pub(crate) unsafe fn from_raw(pointer: *mut DLManagedTensorVersioned) -> Result<Managed> {
    let pointer = checked(pointer)?;
    // SAFETY: `from_raw` takes over a valid struct. Only `version` is read, which is first in every version of it.
    let version = unsafe { (*pointer.as_ptr()).version };
    if version.major != DLPACK_MAJOR_VERSION {
        drop(Foreign(pointer));
        return Err(Error::Version { major: version.major, minor: version.minor });
    }
    // SAFETY: the version was compared. If the struct is one of ours, the caller of `from_raw` gave up its handle.
    if let Some(managed) = unsafe { Managed::recognise(pointer) } {
        return Ok(managed);
    }
    // SAFETY: `from_raw` takes over a valid struct, whose major version has this layout.
    let (tensor, flags) = unsafe { ((*pointer.as_ptr()).dl_tensor, (*pointer.as_ptr()).flags) };
    // SAFETY: `from_raw` takes over memory that is valid until the deleter runs, which `Foreign` calls when it is dropped.
    unsafe { adopt(Foreign(pointer), &tensor, flags) }
}

/// The foreign managed tensor that owns the memory of a tensor.
pub(crate) fn foreign(managed: &Managed) -> Option<NonNull<DLManagedTensorVersioned>> {
    managed.owner::<Foreign<DLManagedTensorVersioned>>().map(|foreign| foreign.0)
}

/// Imports a legacy managed tensor.
///
/// # Safety
/// The contract of [`Tensor::from_raw_legacy`](crate::Tensor::from_raw_legacy).
pub(crate) unsafe fn from_raw_legacy(pointer: *mut DLManagedTensor) -> Result<Managed> {
    let pointer = checked(pointer)?;
    // SAFETY: `from_raw_legacy` takes over a valid struct. If it is one of ours, the caller gave up its handle.
    if let Some(managed) = unsafe { recognise_legacy(pointer) } {
        return Ok(managed);
    }
    // SAFETY: `from_raw_legacy` takes over a valid struct, which is not one of ours and so still there.
    let tensor = unsafe { (*pointer.as_ptr()).dl_tensor };
    // SAFETY: as in `from_raw`: the memory is valid until `Foreign` is dropped.
    unsafe { adopt(Foreign(pointer), &tensor, 0) }
}

/// Checks the number of dimensions and the pointers to them; tells whether there are strides.
fn check_dims(tensor: &DLTensor) -> Result<(usize, bool)> {
    let ndim = usize::try_from(tensor.ndim)
        .ok()
        .filter(|&ndim| ndim <= MAX_NDIM)
        .ok_or(Error::InvalidNdim { ndim: tensor.ndim.into() })?;
    if ndim > 0 && tensor.shape.is_null() {
        return Err(Error::NullPointer { field: "the shape of a tensor with dimensions" });
    }
    Ok((ndim, ndim > 0 && !tensor.strides.is_null()))
}

/// Holds a foreign tensor in a block of ours.
///
/// # Safety
/// `tensor` describes valid memory until `owner` is dropped.
unsafe fn adopt<M: Deleter>(owner: Foreign<M>, tensor: &DLTensor, flags: u64) -> Result<Managed> {
    let (ndim, has_strides) = check_dims(tensor)?;
    let parts = RawParts {
        data: tensor.data,
        dtype: tensor.dtype.into(),
        device: tensor.device.into(),
        byte_offset: tensor.byte_offset,
        access: Access::of(flags),
        subbyte_padded: Access::subbyte_padded(flags),
    };
    // A producer may hand out pointers that are not aligned for `i64`; `Dim` has no alignment.
    let (shape, strides) = (tensor.shape.cast::<Dim>(), tensor.strides.cast::<Dim>());
    let mut draft = Draft::new(owner, ndim);
    // SAFETY: `tensor` describes valid memory while the owner is there, and the owner, which moved into the block, is still
    // there: `ndim` extents, and `axis < ndim`. `check_dims` refused NULL.
    let extent = |axis| i64::from(unsafe { *shape.add(axis) });
    let measure = match has_strides {
        // SAFETY: as above; there are strides.
        true => draft
            .set_axes((0..ndim).map(|axis| (extent(axis), unsafe { *strides.add(axis) }.into()))),
        false => draft.set_shape((0..ndim).map(extent)),
    }?;
    // `parts` knows one access, but a read-only copy has two flags.
    let kept = DLPACK_FLAG_BITMASK_IS_COPIED | DLPACK_FLAG_BITMASK_READ_ONLY;
    // SAFETY: Data, Calm, Exclusive and Send are what the specification, and so the contract of
    // `Tensor::from_raw`, promises for such a tensor and such flags.
    unsafe { draft.describe(&parts, measure, flags & kept) }
}

/// An `i64` of a foreign struct, at any address.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Dim([u8; 8]);

impl From<Dim> for i64 {
    fn from(dim: Dim) -> Self {
        i64::from_ne_bytes(dim.0)
    }
}
