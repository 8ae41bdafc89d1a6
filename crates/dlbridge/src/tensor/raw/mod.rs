//! The unsafe constructors of [`Tensor`]: from memory and from managed tensors whose validity the caller promises.

mod described;
pub(super) mod export;
#[forbid(unsafe_code)]
mod handle;
mod import;
mod origin;
pub(crate) mod owner;
mod shared;
mod tensor_slice;
pub(crate) mod zeros;

use dlbridge_sys::{DLManagedTensor, DLManagedTensorVersioned};

use crate::block::RawParts;
use crate::{Error, MAX_NDIM, Result};

pub use self::handle::Tensor;
pub use self::owner::Owner;
pub use self::shared::ArcTensor;
pub use self::tensor_slice::{TensorSlice, TensorSliceMut};

impl Tensor {
    /// Makes a tensor over memory that `owner` keeps alive; adapters use it. Without `strides` the elements are
    /// in C order. Extents and strides count elements.
    ///
    /// # Errors
    /// Returns an error if the parts are invalid, and drops the owner.
    ///
    /// # Safety
    /// - Until `owner` is dropped, on any thread, every element of the layout lies in one allocation on `parts.device`,
    ///   initialised, valid for reads and, for [`Access::Exclusive`](crate::Access::Exclusive) and
    ///   [`Access::Shared`](crate::Access::Shared), for writes. It stays valid when the owner moves.
    /// - If `owner` is an [`ArcTensor`](crate::ArcTensor), these are elements of that tensor, or bytes of its
    ///   elements: the new tensor counts as a further handle on it.
    /// - Nothing writes it while a view of the tensor is alive.
    /// - With [`Access::Exclusive`](crate::Access::Exclusive), only the holder of the tensor reads or writes it.
    /// - With [`Access::Immutable`](crate::Access::Immutable), nothing writes it until `owner` is dropped or returned
    ///   by [`Tensor::try_into_owner`].
    /// - With [`Access::Exclusive`](crate::Access::Exclusive) and [`Access::Shared`](crate::Access::Shared), consumers
    ///   that know only the dtype may write any bytes there. The owner must be sound with them, also after
    ///   [`Tensor::try_into_owner`] returned it: a `Vec<bool>` is not.
    ///
    /// ```
    /// use dlbridge::{Access, DataType, RawParts, Tensor};
    ///
    /// let mut owner = vec![1.0_f32, 2.0, 3.0, 4.0];
    /// let parts = RawParts {
    ///     access: Access::Exclusive,
    ///     ..RawParts::new(owner.as_mut_ptr().cast(), DataType::FLOAT32)
    /// };
    /// // SAFETY: the vector owns four floats, which keep their addresses when it moves.
    /// let tensor = unsafe { Tensor::from_raw_parts(owner, parts, &[2, 2], Some(&[1, 2])) }?;
    /// assert_eq!(tensor.view::<f32>()?[[0, 1]], 3.0);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub unsafe fn from_raw_parts<O, S, T>(
        owner: O,
        parts: RawParts,
        shape: &[S],
        strides: Option<&[T]>,
    ) -> Result<Self>
    where
        O: Send + 'static,
        S: Copy + TryInto<i64>,
        T: Copy + TryInto<i64>,
    {
        if shape.len() > MAX_NDIM {
            return Err(Error::InvalidNdim { ndim: shape.len() as i64 });
        }
        // SAFETY: Data, Calm, Exclusive and Send are this function's contract.
        unsafe { owner::from_raw_parts(owner, &parts, shape, strides) }.map(Self::from_managed)
    }

    /// Takes over a versioned managed tensor from a C producer.
    ///
    /// Checks everything that can be checked: version, pointers, number of dimensions, sizes and extents, the width of
    /// the dtype. Recognises a tensor that this crate exported: [`Tensor::try_into_owner`] returns its owner. Shape and
    /// strides are copied, NULL strides become those of C order, and a byte offset is added to `data` if that is an
    /// address.
    ///
    /// # Errors
    /// Returns an error if the managed tensor is invalid. Its deleter has run then, except for a NULL or misaligned
    /// pointer.
    ///
    /// # Safety
    /// - `managed` is NULL, or points at a managed tensor that follows the specification: description
    ///   and data are initialised, and stay valid until the deleter runs. The caller owns it: no other code calls
    ///   the deleter, and no code has changed a description that this crate wrote.
    /// - Nothing writes the data while a view of the tensor is alive.
    /// - The deleter may be called on any thread.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let managed = Tensor::from(vec![1_u8, 2, 3]).into_raw();
    /// // SAFETY: a valid managed tensor, which this code owns.
    /// let tensor = unsafe { Tensor::from_raw(managed) }?;
    /// assert_eq!(tensor.try_into_owner::<Vec<u8>>().unwrap(), [1, 2, 3]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub unsafe fn from_raw(managed: *mut DLManagedTensorVersioned) -> Result<Self> {
        // SAFETY: `import::from_raw` has the contract of this function, which the caller keeps.
        unsafe { import::from_raw(managed) }.map(Self::from_managed)
    }

    /// Takes over a legacy managed tensor from a C producer.
    ///
    /// The struct lacks flags for read-only data and copies: the result is [`Access::Shared`](crate::Access::Shared),
    /// unless this crate made the struct of an exclusive tensor.
    ///
    /// # Errors
    /// As [`Tensor::from_raw`].
    ///
    /// # Safety
    /// The contract of [`Tensor::from_raw`].
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let managed = Tensor::from(vec![1_u8, 2, 3]).into_raw_legacy().unwrap();
    /// // SAFETY: a valid managed tensor, which this code owns.
    /// let tensor = unsafe { Tensor::from_raw_legacy(managed) }?;
    /// assert_eq!(tensor.shape(), [3]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub unsafe fn from_raw_legacy(managed: *mut DLManagedTensor) -> Result<Self> {
        // SAFETY: `import::from_raw_legacy` has the contract of this function, which the caller keeps.
        unsafe { import::from_raw_legacy(managed) }.map(Self::from_managed)
    }

    /// Declares that only this tensor uses the data of a shared tensor, so that it can be viewed
    /// mutably. Read-only data stays read-only.
    ///
    /// # Safety
    /// From now on only the holder of the tensor reads or writes the data, until it is
    /// dropped.
    ///
    /// ```
    /// use dlbridge::{Access, DataType, RawParts, Tensor};
    ///
    /// let mut owner = vec![1_i32, 2];
    /// let parts = RawParts::new(owner.as_mut_ptr().cast(), DataType::INT32);
    /// // SAFETY: the vector owns two integers, which keep their addresses when it moves.
    /// let tensor = unsafe { Tensor::from_raw_parts(owner, parts, &[2], None::<&[i64]>) }?;
    /// assert_eq!(tensor.access(), Access::Shared);
    /// // SAFETY: no other code has access to the vector.
    /// let mut tensor = unsafe { tensor.assume_exclusive() };
    /// tensor.view_mut::<i32>()?[[0]] = 5;
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    #[must_use = "the tensor is dropped otherwise"]
    pub unsafe fn assume_exclusive(self) -> Self {
        let mut managed = self.into_managed();
        // SAFETY: Exclusive is this function's contract.
        unsafe { managed.set_exclusive() };
        Self::from_managed(managed)
    }

    /// Declares that nothing writes the data as long as the tensor lives:
    /// [`Access::Immutable`](crate::Access::Immutable).
    ///
    /// Use it for memory of a foreign producer if you know that none of its other users writes it. For an exclusive
    /// tensor [`Tensor::try_into_immutable`] does the same without a promise.
    ///
    /// # Safety
    /// From now on nothing writes the data until this tensor is dropped: not the producer, not a consumer
    /// that already has the memory, and not a consumer that gets it from this tensor. Tensors that
    /// [`ArcTensor::share`](crate::ArcTensor::share) or [`ArcTensor::to_raw`](crate::ArcTensor::to_raw)
    /// made of this one, and libraries that hold it, keep it alive.
    ///
    /// ```
    /// use dlbridge::{Access, RawParts, Tensor};
    ///
    /// let mut owner = vec![1_i32, 2];
    /// let parts = RawParts::of_elements(owner.as_mut_ptr(), Access::Shared);
    /// // SAFETY: the vector owns two integers, which keep their addresses when it moves.
    /// let tensor = unsafe { Tensor::from_raw_parts(owner, parts, &[2], None::<&[i64]>) }?;
    /// // SAFETY: no other code has access to the vector, and nothing below writes it.
    /// let tensor = unsafe { tensor.assume_immutable() };
    /// assert_eq!(tensor.access(), Access::Immutable);
    /// assert_eq!(tensor.check_stable(), Ok(()));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    #[must_use = "the tensor is dropped otherwise"]
    pub unsafe fn assume_immutable(self) -> Self {
        let mut managed = self.into_managed();
        // SAFETY: Immutable is this function's contract.
        unsafe { managed.set_immutable() };
        Self::from_managed(managed)
    }
}
