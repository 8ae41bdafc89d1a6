//! Imports foreign managed tensors: validates them once, then holds them in a block.
//!
//! The import copies the description, so later reads of shape and strides do not touch foreign memory. The foreign
//! struct becomes the owner; its deleter runs when the owner is dropped, also if validation fails.

use core::ptr::NonNull;

use dlbridge_sys::{
    DLManagedTensor, DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_IS_COPIED,
    DLPACK_FLAG_BITMASK_READ_ONLY, DLPACK_MAJOR_VERSION, DLTensor,
};

use crate::block::RawParts;
use crate::block::{Builder, Managed};
use crate::tensor::raw::export::recognise_legacy;
use crate::{Access, Error, MAX_NDIM, Result};

/// A foreign managed tensor; dropping it calls its deleter.
struct Foreign<M: Deleter>(NonNull<M>);

// SAFETY: Send: DLPack lets a consumer call the deleter on any thread.
unsafe impl<M: Deleter> Send for Foreign<M> {}
// SAFETY: shared access copies the pointer.
unsafe impl<M: Deleter> Sync for Foreign<M> {}

/// Calls the deleter of a managed tensor.
trait Deleter: 'static {
    /// # Safety
    /// The managed tensor is valid and not used afterwards.
    unsafe fn delete(this: *mut Self);
}

impl Deleter for DLManagedTensorVersioned {
    unsafe fn delete(this: *mut Self) {
        // SAFETY: the caller of `delete` guarantees a valid struct that is not used again. `deleter` is at the same
        // place in every version, and a struct without one has nothing to free.
        unsafe { (*this).deleter.map(|deleter| call(deleter, this)) };
    }
}

impl Deleter for DLManagedTensor {
    unsafe fn delete(this: *mut Self) {
        // SAFETY: the caller of `delete` guarantees a valid struct that is not used again. There is one version of the
        // legacy struct, and one without a deleter has nothing to free.
        unsafe { (*this).deleter.map(|deleter| call(deleter, this)) };
    }
}

/// Calls a deleter.
///
/// A deleter that waits for the Python interpreter does not return if the interpreter shuts down meanwhile. Before
/// version 3.14 Python ends the waiting thread by unwinding its stack, and Rust frames would turn that into an abort.
/// This stops the thread for good instead, as later versions of Python do.
///
/// # Safety
/// `deleter` is the one of `this`, which is valid and not used afterwards.
unsafe fn call<M>(deleter: unsafe extern "C" fn(*mut M), this: *mut M) {
    // SAFETY: the two types differ only in the compiler's assumption about unwinding.
    let deleter: unsafe extern "C-unwind" fn(*mut M) = unsafe { core::mem::transmute(deleter) };
    #[cfg(feature = "std")]
    let stop = Stop;
    // SAFETY: the caller passes the deleter of this struct, which is valid; nothing uses the struct afterwards, so the
    // deleter runs once.
    unsafe { deleter(this) };
    #[cfg(feature = "std")]
    core::mem::forget(stop);
}

/// Stops the thread for good if it unwinds without a Rust panic.
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
        // SAFETY: made from a pointer whose ownership the caller of `from_raw` gave up, once.
        unsafe { M::delete(self.0.as_ptr()) }
    }
}

/// Checks that the pointer to a foreign struct is aligned and not NULL.
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
    // SAFETY: `from_raw` takes over a valid struct. Only `version` is read, which is the first field in every version.
    let version = unsafe { (*pointer.as_ptr()).version };
    if version.major != DLPACK_MAJOR_VERSION {
        drop(Foreign(pointer));
        return Err(Error::Version { major: version.major, minor: version.minor });
    }
    // SAFETY: the version was compared. If this crate made the struct, the caller of `from_raw` gave up its handle.
    if let Some(managed) = unsafe { Managed::recognise(pointer) } {
        return Ok(managed);
    }
    // SAFETY: `from_raw` takes over a valid struct, whose major version has this layout.
    let (tensor, flags) = unsafe { ((*pointer.as_ptr()).dl_tensor, (*pointer.as_ptr()).flags) };
    // SAFETY: `from_raw` takes over memory that is valid until the deleter runs, which `Foreign` calls when it is
    // dropped.
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
    // SAFETY: `from_raw_legacy` takes over a valid struct. If this crate made it, the caller gave up its handle.
    if let Some(managed) = unsafe { recognise_legacy(pointer) } {
        return Ok(managed);
    }
    // SAFETY: `from_raw_legacy` takes over a valid struct, which this crate did not make, so `recognise_legacy` did not
    // free it.
    let tensor = unsafe { (*pointer.as_ptr()).dl_tensor };
    // SAFETY: `from_raw_legacy` takes over memory that is valid until the deleter runs, which `Foreign` calls when it
    // is dropped.
    unsafe { adopt(Foreign(pointer), &tensor, 0) }
}

/// Checks the number of dimensions and the pointers to shape and strides. Returns that number, and true if strides are
/// given.
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

/// Holds a foreign tensor in a block.
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
    // A producer's pointers may not be aligned for `i64`; `Dim` has an alignment of 1.
    let (shape, strides) = (tensor.shape.cast::<Dim>(), tensor.strides.cast::<Dim>());
    let mut builder = Builder::new(owner, ndim);
    // SAFETY: `tensor` describes valid memory while the owner lives, and the owner, which moved into the block, still
    // lives: `ndim` extents, and `axis < ndim`. `check_dims` refused NULL.
    let extent = |axis| i64::from(unsafe { *shape.add(axis) });
    let measure = match has_strides {
        // SAFETY: `check_dims` found that `strides` is not NULL, so it leads to `ndim` strides, valid while the owner
        // in the block lives; `axis < ndim`.
        true => builder
            .set_axes((0..ndim).map(|axis| (extent(axis), unsafe { *strides.add(axis) }.into()))),
        false => builder.set_shape((0..ndim).map(extent)),
    }?;
    // `parts` holds one access, but a read-only copy has two flags.
    let kept = DLPACK_FLAG_BITMASK_IS_COPIED | DLPACK_FLAG_BITMASK_READ_ONLY;
    // SAFETY: the specification, and so the contract of `Tensor::from_raw`, promises Data, Calm, Exclusive and Send for
    // this tensor and these flags.
    unsafe { builder.describe(&parts, measure, flags & kept) }
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
