//! A tensor that derefs to a slice.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;

use crate::element::Element;
use crate::{Error, Tensor};

/// A tensor that is contiguous in C order and derefs to the slice of its elements.
///
/// For libraries that accept any container that derefs to a slice, like `image::ImageBuffer`. Element types that need a
/// check of their bits, like `bool`, do not compile: a producer may write between two derefs.
///
/// ```
/// use dlbridge::{Tensor, TensorSlice};
///
/// let slice: TensorSlice<u8> = Tensor::from([[1, 2], [3, 4_u8]]).try_into()?;
/// assert_eq!(slice[..], [1, 2, 3, 4]);
/// assert_eq!(slice.into_tensor().shape(), [2, 2]);
/// # Ok::<(), dlbridge::Error>(())
/// ```
pub struct TensorSlice<T> {
    /// Points at `len` elements that satisfy the invariant View of `view/raw.rs` for every borrow of `tensor`; dangling if
    /// the tensor is empty.
    first: NonNull<T>,
    len: usize,
    tensor: Tensor,
}

/// An exclusive tensor that is contiguous in C order and derefs to the mutable slice of its elements.
///
/// ```
/// use dlbridge::{Tensor, TensorSliceMut};
///
/// let mut slice: TensorSliceMut<u8> = Tensor::from(vec![1, 2, 3_u8]).try_into()?;
/// slice[0] = 10;
/// assert_eq!(slice.into_tensor().try_into_owner::<Vec<u8>>().unwrap(), [10, 2, 3]);
/// # Ok::<(), dlbridge::Error>(())
/// ```
pub struct TensorSliceMut<T>(TensorSlice<T>);

// SAFETY: a tensor, which is `Send`, and a pointer into it.
unsafe impl<T: Element> Send for TensorSlice<T> {}
// SAFETY: shared access reads the tensor, which is `Sync`, and elements, which are `Sync` too and which no code writes
// while the slice is borrowed (Calm).
unsafe impl<T: Element> Sync for TensorSlice<T> {}

impl<T: Element> TryFrom<Tensor> for TensorSlice<T> {
    type Error = Error;

    /// Returns the errors of [`Tensor::view`], and [`Error::NotContiguous`]. The tensor is dropped then.
    fn try_from(tensor: Tensor) -> Result<Self, Error> {
        const { assert!(T::CHECK.is_none(), "such elements must be checked before each view") }
        let view = tensor.view::<T>()?;
        let len = view.as_slice().ok_or(Error::NotContiguous)?.len();
        // The view's own pointer: a write by the producer would invalidate a pointer made of a reference.
        Ok(Self { first: view.first(), len, tensor })
    }
}

impl<T: Element> TryFrom<Tensor> for TensorSliceMut<T> {
    type Error = Error;

    /// Returns the errors of [`Tensor::view_mut`], and [`Error::NotContiguous`]. The tensor is dropped then.
    fn try_from(mut tensor: Tensor) -> Result<Self, Error> {
        const { assert!(T::CHECK.is_none(), "such elements must be checked before each view") }
        let view = tensor.view_mut::<T>()?.into_view();
        let len = view.as_slice().ok_or(Error::NotContiguous)?.len();
        Ok(Self(TensorSlice { first: view.first(), len, tensor }))
    }
}

impl<T> TensorSlice<T> {
    /// Returns the tensor.
    ///
    /// ```
    /// use dlbridge::{Tensor, TensorSlice};
    ///
    /// let slice = TensorSlice::<u8>::try_from(Tensor::from(vec![1_u8]))?;
    /// assert_eq!(slice.into_tensor().shape(), [1]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn into_tensor(self) -> Tensor {
        self.tensor
    }
}

impl<T> TensorSliceMut<T> {
    /// Returns the tensor.
    ///
    /// ```
    /// use dlbridge::{Tensor, TensorSliceMut};
    ///
    /// let slice = TensorSliceMut::<u8>::try_from(Tensor::from(vec![1_u8]))?;
    /// assert_eq!(slice.into_tensor().shape(), [1]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn into_tensor(self) -> Tensor {
        self.0.into_tensor()
    }
}

impl<T> Deref for TensorSlice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: View, for the borrow of `self.tensor` that `&self` is.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> Deref for TensorSliceMut<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for TensorSliceMut<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: View, for the mutable borrow of the tensor that `&mut self` is. The tensor was exclusive when this
        // was made, and no code has changed that since.
        unsafe { slice::from_raw_parts_mut(self.0.first.as_ptr(), self.0.len) }
    }
}

impl<T> fmt::Debug for TensorSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tensor.fmt(f)
    }
}

impl<T> fmt::Debug for TensorSliceMut<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
