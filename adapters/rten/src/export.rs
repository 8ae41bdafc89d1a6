//! Tensors and views of rten to tensors.
//!
//! - **Storage.** The storage of a tensor of rten holds as many initialised elements as its length says. A vector has
//!   them on the heap, where they stay when it moves, and no other code has them. Other handles may read a storage in
//!   an `Arc`, and none writes it.

use std::sync::Arc;

use dlbridge::{Access, Element, Error, RawParts, Result, Tensor, TensorRef};
use rten_tensor::layout::SizeArray;
use rten_tensor::prelude::*;
use rten_tensor::{Storage, TensorBase};

use crate::sealed::Sealed;
use crate::storage::{TensorStorage, TensorStorageMut};

/// Tensors of rten that own their elements, to tensors.
pub trait RtenExt: Sealed + Sized {
    /// Turns the tensor of rten into a tensor that owns it. [`Access::Exclusive`], or [`Access::Immutable`] for one
    /// whose vector is in an `Arc`, and for one over a [`TensorStorage`](crate::TensorStorage).
    ///
    /// The elements and strides stay as they are. [`Tensor::try_into_owner`] returns the tensor of rten.
    ///
    /// Elements with an [`Element::CHECK`], such as `bool`, do not compile, unless the tensor is read-only: a
    /// consumer could write bytes that are not values of the type.
    ///
    /// ```compile_fail,E0080
    /// use dlbridge_rten::RtenExt;
    ///
    /// let tensor = rten_tensor::Tensor::from_data(&[2], vec![true, false]).into_tensor();
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] if a layout, which can be of any type, leads outside of the storage;
    /// [`Error::InvalidNdim`] for more than [`MAX_NDIM`](dlbridge::MAX_NDIM) dimensions. The tensor of rten is
    /// dropped.
    ///
    /// ```
    /// use dlbridge_rten::RtenExt;
    /// use rten_tensor::{NdTensor, Tensor};
    ///
    /// let rten = NdTensor::from_data([2, 2], vec![1, 2, 3, 4]);
    /// let tensor = rten.into_tensor()?;
    /// assert_eq!(tensor.view::<i32>()?[[1, 0]], 3);
    /// let rten = tensor.try_into_owner::<NdTensor<i32, 2>>().unwrap();  // the same vector again
    /// assert_eq!(rten.into_data(), [1, 2, 3, 4]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn into_tensor(self) -> Result<Tensor>;
}

/// Tensors and views of rten, borrowed as tensors.
pub trait RtenRefExt: Sealed {
    /// Borrows the tensor or view as a read-only tensor.
    ///
    /// # Errors
    /// As [`RtenExt::into_tensor`].
    ///
    /// ```
    /// use dlbridge_rten::RtenRefExt;
    /// use rten_tensor::prelude::*;
    ///
    /// let rten = rten_tensor::Tensor::from_data(&[2, 2], vec![1, 2, 3, 4]);
    /// assert_eq!(rten.view().transposed().as_tensor_ref()?.strides(), [1, 2]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn as_tensor_ref(&self) -> Result<TensorRef<'_>>;
}

impl<S: Storage, L: Layout> Sealed for TensorBase<S, L> {}

impl<T: Element, L: Layout + Clone + Send + 'static> RtenExt for TensorBase<Vec<T>, L> {
    fn into_tensor(mut self) -> Result<Tensor> {
        const { assert!(T::CHECK.is_none(), "not every bit pattern is an element") }
        let (shape, strides) = dims(&self, self.view().storage().len())?;
        let parts = RawParts::of_elements(self.data_ptr_mut(), Access::Exclusive);
        // SAFETY: the contract of `Tensor::from_raw_parts` is Storage, and `dims` checked that the layout stays
        // within it. Any bytes that a consumer may write are values of `T`.
        unsafe { Tensor::from_raw_parts(self, parts, &shape, Some(&strides)) }
    }
}

impl<T: Element, L: Layout + Clone + Send + 'static> RtenExt for TensorBase<Arc<Vec<T>>, L> {
    fn into_tensor(self) -> Result<Tensor> {
        let (shape, strides) = dims(&self, self.view().storage().len())?;
        let parts = RawParts::of_elements(self.data_ptr().cast_mut(), Access::Immutable);
        // SAFETY: the contract of `Tensor::from_raw_parts` is Storage, and `dims` checked that the layout stays within
        // it. No code writes the vector while this handle lives (Immutable).
        unsafe { Tensor::from_raw_parts(self, parts, &shape, Some(&strides)) }
    }
}

impl<T: Element, L: Layout + Clone + Send + 'static> RtenExt for TensorBase<TensorStorage<T>, L> {
    fn into_tensor(self) -> Result<Tensor> {
        let (shape, strides) = dims(&self, self.view().storage().len())?;
        let parts = RawParts::of_elements(self.data_ptr().cast_mut(), Access::Immutable);
        // SAFETY: the tensor in the storage keeps the elements, and no code writes them as long as the storage lives
        // (`TensorStorage::first`). `dims` checked that the layout stays within them.
        unsafe { Tensor::from_raw_parts(self, parts, &shape, Some(&strides)) }
    }
}

impl<T: Element, L: Layout + Clone + Send + 'static> RtenExt
    for TensorBase<TensorStorageMut<T>, L>
{
    fn into_tensor(mut self) -> Result<Tensor> {
        let (shape, strides) = dims(&self, self.view().storage().len())?;
        let parts = RawParts::of_elements(self.data_ptr_mut(), Access::Exclusive);
        // SAFETY: the tensor in the storage keeps the elements and is exclusive (`TensorStorage::first`), and `dims`
        // checked that the layout stays within them. Any bytes are values of `T`, as `over` demands.
        unsafe { Tensor::from_raw_parts(self, parts, &shape, Some(&strides)) }
    }
}

impl<T: Element, S: Storage<Elem = T>, L: Layout + Clone> RtenRefExt for TensorBase<S, L> {
    fn as_tensor_ref(&self) -> Result<TensorRef<'_>> {
        let (shape, strides) = dims(self, self.view().storage().len())?;
        let parts = RawParts::of_elements(self.data_ptr().cast_mut(), Access::ReadOnly);
        let axes = shape.iter().zip(&strides).map(|(&extent, &stride)| (extent, stride));
        // SAFETY: the contract of `TensorRef::from_raw_axes`: Storage, and `dims` checked that the layout stays
        // within it; the tensor is borrowed for the same lifetime.
        unsafe { TensorRef::from_raw_axes(&parts, axes) }
    }
}

/// The shape and strides of a layout, checked to stay within a storage of some length. The layout is not trusted,
/// because any code can implement the trait.
fn dims(layout: &impl Layout, len: usize) -> Result<(Vec<i64>, Vec<i64>)> {
    let number = |n: usize| i64::try_from(n).map_err(|_| Error::TooLarge);
    let shape: Vec<i64> = layout.shape().iter().map(number).collect::<Result<_>>()?;
    if shape.contains(&0) {
        let strides = vec![0; shape.len()];
        return Ok((shape, strides));
    }
    let strides: Vec<i64> = layout.strides().iter().map(number).collect::<Result<_>>()?;
    let highest = shape.iter().zip(&strides).fold(0_i64, |sum, (&extent, &stride)| {
        sum.saturating_add((extent - 1).saturating_mul(stride))
    });
    if usize::try_from(highest).is_ok_and(|highest| highest < len) {
        Ok((shape, strides))
    } else {
        Err(Error::OutOfBounds { lowest: 0, highest, owner: len })
    }
}
