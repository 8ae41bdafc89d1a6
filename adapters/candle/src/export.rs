//! Tensors of candle into tensors.

use dlbridge::{Access, RawParts, Tensor};

use crate::Result;
use crate::locked::Locked;
use crate::sealed::Sealed;

/// Tensors of [candle](candle_core::Tensor) as tensors.
pub trait CandleExt: Sealed + Sized {
    /// The tensor's elements where they are, with its shape and its strides. Read-only.
    ///
    /// Until the tensor is dropped, and all that was made of it without a copy, it holds the lock of candle's storage for
    /// reading: operations of candle that write there in place wait, on any tensor that shares the storage. While one
    /// waits, so does this method on such a tensor; in the thread that would drop the first, for ever. See
    /// [the crate](crate#a-tensor-holds-the-lock).
    ///
    /// [`TensorExt::into_candle`](crate::TensorExt::into_candle) gives the tensor of candle back.
    ///
    /// # Errors
    /// [`Error::NotOnCpu`] for a tensor on another device; [`Error::DType`] for elements that candle keeps as bytes
    /// of its own; [`Error::Tensor`] for more dimensions than DLPack tensors have here, and for a shape that the
    /// storage has too few elements for. The tensor of candle is dropped.
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

    /// As [`into_tensor`](Self::into_tensor), but nothing stays locked: candle can write in place meanwhile, and consumers
    /// see that. The lock is taken once, to look where the elements are: behind a writer that waits, this method waits
    /// too. The tensor's owner is the [`candle_core::Tensor`], which [`Tensor::try_into_owner`] gives back.
    ///
    /// # Errors
    /// As [`into_tensor`](Self::into_tensor).
    ///
    /// # Safety
    /// Until the tensor is dropped, and all that was made of it without a copy:
    /// - nobody writes the storage in place while a view of the tensor is alive, or while a consumer reads it;
    /// - nobody replaces the storage or makes it longer or shorter, as an `InplaceOp1` may.
    ///
    /// ```
    /// use candle_core::{DType, Device, Var};
    /// use dlbridge_candle::CandleExt;
    ///
    /// let weights = Var::zeros(3, DType::F32, &Device::Cpu)?;
    /// // SAFETY: below nothing is set while a view is alive, and nothing is ever replaced.
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
        // Immutable: code that writes the storage must lock it for writing, and waits for the lock that the owner holds.
        let parts = RawParts { access: Access::Immutable, ..parts };
        // SAFETY: `Locked` keeps the storage alive and unwritten, and has found every index within it.
        unsafe { describe(locked, parts, &tensor) }
    }

    unsafe fn into_tensor_unlocked(self) -> Result<Tensor> {
        let locked = Locked::new(self);
        let (parts, tensor) = (locked.parts()?, locked.tensor().clone());
        // SAFETY: the tensor keeps the storage alive. The caller of `into_tensor_unlocked` guarantees that the storage keeps its
        // length and is not written while it is read.
        unsafe { describe(locked.into_tensor(), parts, &tensor) }
    }
}

/// The parts with the shape and strides of a tensor of candle.
///
/// # Safety
/// The contract of [`Tensor::from_raw_parts`] for the owner, the parts, and that layout.
unsafe fn describe<O: Send + 'static>(
    owner: O,
    parts: RawParts,
    tensor: &candle_core::Tensor,
) -> Result<Tensor> {
    // SAFETY: this function's contract.
    let tensor =
        unsafe { Tensor::from_raw_parts(owner, parts, tensor.dims(), Some(tensor.stride())) };
    Ok(tensor?)
}
