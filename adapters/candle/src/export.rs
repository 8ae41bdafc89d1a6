//! Tensors of candle to tensors, with a lock that keeps their storage unwritten.

use core::mem;

use candle_core::{Layout, Storage, StorageRef};
use dlbridge::{Access, RawParts, Tensor};

use crate::dtype::Elements;
use crate::sealed::Sealed;
use crate::{Error, Result};

/// Tensors of [candle](candle_core::Tensor) as tensors.
pub trait CandleExt: Sealed + Sized {
    /// Makes a tensor of the elements in place, with its shape and strides, read-only.
    ///
    /// Until this tensor, and everything made of it without a copy, is dropped, it holds a read lock on candle's
    /// storage: operations of candle that write that storage in place wait, on any tensor that shares it. While such
    /// a writer waits, this method also waits on any tensor with that storage. If it waits on the thread that would
    /// drop the first tensor, it waits for ever. See [the crate](crate#a-tensor-holds-the-lock).
    ///
    /// [`TensorExt::into_candle`](crate::TensorExt::into_candle) returns the tensor of candle.
    ///
    /// # Errors
    /// [`Error::NotOnCpu`] for a tensor on another device; [`Error::DType`] for elements that candle stores as
    /// undocumented bytes; [`Error::Tensor`] for more dimensions than a tensor may have, and for a shape larger than
    /// the storage. The tensor of candle is dropped.
    ///
    /// [`Error::NotOnCpu`]: crate::Error::NotOnCpu
    /// [`Error::DType`]: crate::Error::DType
    /// [`Error::Tensor`]: crate::Error::Tensor
    ///
    /// ```
    /// use candle_core::{Device, Tensor};
    /// use dlbridge_candle::CandleExt;
    ///
    /// let ones = Tensor::new(&[[1_u8, 1], [1, 1]], &Device::Cpu)?;
    /// let tensor = ones.broadcast_as((3, 2, 2))?.into_tensor()?;
    /// assert_eq!(tensor.strides(), [0, 2, 1]);
    /// assert!(tensor.is_read_only());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn into_tensor(self) -> Result<Tensor>;

    /// As [`into_tensor`](Self::into_tensor), but without a lock: candle can write in place meanwhile, and consumers
    /// see the writes. The method takes the lock once, to find the elements, so it waits behind a waiting writer. The
    /// owner is the [`candle_core::Tensor`], which [`Tensor::try_into_owner`] returns.
    ///
    /// # Errors
    /// As [`into_tensor`](Self::into_tensor).
    ///
    /// # Safety
    /// Until the tensor, and everything made of it without a copy, is dropped:
    /// - no code writes the storage in place while a view of the tensor is alive, or while a consumer reads it;
    /// - no code replaces the storage or changes its length, as an `InplaceOp1` may.
    ///
    /// ```
    /// use candle_core::{DType, Device, Var};
    /// use dlbridge_candle::CandleExt;
    ///
    /// let weights = Var::zeros(3, DType::F32, &Device::Cpu)?;
    /// // SAFETY: nothing is written below while a view is alive, and nothing is ever replaced.
    /// let tensor = unsafe { weights.as_tensor().clone().into_tensor_unlocked() }?;
    /// weights.set(&weights.ones_like()?)?;
    /// assert_eq!(tensor.view::<f32>()?.to_vec(), [1.0; 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    unsafe fn into_tensor_unlocked(self) -> Result<Tensor>;
}

impl Sealed for candle_core::Tensor {}

impl CandleExt for candle_core::Tensor {
    fn into_tensor(self) -> Result<Tensor> {
        let locked = Locked::new(self);
        let (parts, tensor) = (locked.parts()?, locked.tensor().clone());
        // Immutable: code that writes the storage must lock it for writing, and waits for the owner's read lock.
        let parts = RawParts { access: Access::Immutable, ..parts };
        // SAFETY: `Locked` keeps the storage alive and unwritten, and checked that every index is within it.
        unsafe { describe(locked, parts, &tensor) }
    }

    unsafe fn into_tensor_unlocked(self) -> Result<Tensor> {
        let locked = Locked::new(self);
        let (parts, tensor) = (locked.parts()?, locked.tensor().clone());
        // SAFETY: the tensor keeps the storage alive. The caller of `into_tensor_unlocked` guarantees that the
        // storage keeps its length and is not written while it is read.
        unsafe { describe(locked.into_tensor(), parts, &tensor) }
    }
}

/// Describes memory with the shape and strides of a tensor of candle.
///
/// # Safety
/// As [`Tensor::from_raw_parts`], for the owner, the parts, and that layout.
unsafe fn describe<O: Send + 'static>(
    owner: O,
    parts: RawParts,
    tensor: &candle_core::Tensor,
) -> Result<Tensor> {
    // SAFETY: the caller guarantees the contract of `Tensor::from_raw_parts`.
    let tensor =
        unsafe { Tensor::from_raw_parts(owner, parts, tensor.dims(), Some(tensor.stride())) };
    Ok(tensor?)
}

/// A tensor of candle with a read lock on its storage.
pub(crate) struct Locked {
    /// Declared before the tensor, so that it is released first.
    guard: StorageRef<'static>,
    tensor: candle_core::Tensor,
}

impl Locked {
    pub(crate) fn new(tensor: candle_core::Tensor) -> Self {
        let (guard, _) = tensor.storage_and_layout();
        // SAFETY: the lock is on the heap, where the tensor keeps it alive. The guard is dropped before the tensor,
        // and no function returns the guard or its lifetime.
        let guard = unsafe { mem::transmute::<StorageRef<'_>, StorageRef<'static>>(guard) };
        Self { guard, tensor }
    }

    /// Describes the elements, after checking that all are within the storage.
    pub(crate) fn parts(&self) -> Result<RawParts> {
        let elements = match &*self.guard {
            Storage::Cpu(storage) => Elements::of(storage)?,
            other => return Err(Error::NotOnCpu { location: other.device().location() }),
        };
        let layout = self.tensor.layout();
        check_bounds(layout, elements.len)?;
        let offset = layout.start_offset().wrapping_mul(elements.dtype.itemsize());
        let first = elements.first.wrapping_byte_add(offset);
        Ok(RawParts { access: Access::ReadOnly, ..RawParts::new(first, elements.dtype) })
    }

    pub(crate) fn tensor(&self) -> &candle_core::Tensor {
        &self.tensor
    }

    /// Releases the lock.
    pub(crate) fn into_tensor(self) -> candle_core::Tensor {
        self.tensor
    }
}

/// Checks that all indices lead to elements of a storage: `candle_core::Tensor::from_storage` takes any shape.
fn check_bounds(layout: &Layout, owner: usize) -> dlbridge::Result<()> {
    let axes = || layout.dims().iter().zip(layout.stride());
    if layout.dims().contains(&0) {
        return Ok(());
    }
    let last = axes().try_fold(layout.start_offset(), |last, (&extent, &stride)| {
        last.checked_add((extent - 1).checked_mul(stride)?)
    });
    let number = |position: usize| i64::try_from(position).ok();
    let (Some(lowest), Some(highest)) = (number(layout.start_offset()), last.and_then(number))
    else {
        return Err(dlbridge::Error::TooLarge);
    };
    if highest as usize >= owner {
        return Err(dlbridge::Error::OutOfBounds { lowest, highest, owner });
    }
    Ok(())
}
