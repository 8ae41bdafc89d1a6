//! Tensors and views to tensors and views of rten.

use std::ptr::NonNull;
use std::slice;

use dlbridge::{Element, Result, Tensor, TensorRef, TensorView, TensorViewMut};
use rten_tensor::prelude::*;
use rten_tensor::{DynLayout, Storage, TensorBase};

use crate::sealed::Sealed;
use crate::storage::{Filled, TensorStorage, TensorStorageMut, extents};

/// Tensors as tensors of rten.
pub trait TensorExt: Sealed {
    /// Turns the tensor into a tensor of rten for reading, which keeps it alive, without a copy. A tensor that was
    /// made of such a tensor of rten becomes that one again.
    ///
    /// The dimensions may be in any order and elements may repeat, but gaps and negative strides are refused.
    /// [`to_rten`](Self::to_rten) copies such tensors.
    ///
    /// Elements with an [`Element::CHECK`], such as `bool`, do not compile: they would need the check before each
    /// access.
    ///
    /// ```compile_fail,E0080
    /// use dlbridge_rten::TensorExt;
    ///
    /// let rten = dlbridge::Tensor::from(vec![true]).into_rten::<bool>();
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::view`]; [`NotContiguous`](dlbridge::Error::NotContiguous) for gaps and negative strides;
    /// [`Unstable`](dlbridge::Error::Unstable) if other code may write the elements: [`Tensor::into_exclusive`]
    /// copies them, and the unsafe [`Tensor::assume_immutable`] promises that nothing writes them. The tensor is
    /// dropped.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_rten::TensorExt;
    /// use rten_tensor::prelude::*;
    ///
    /// let rten = Tensor::from([[1, 2], [3, 4]]).into_rten::<i32>()?;
    /// assert_eq!(rten.view().slice(1).to_vec(), [3, 4]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn into_rten<T: Element>(self) -> Result<TensorBase<TensorStorage<T>, DynLayout>>;

    /// As [`into_rten`](Self::into_rten), for reading and writing.
    ///
    /// # Errors
    /// Those of [`Tensor::view_mut`], and [`NotContiguous`](dlbridge::Error::NotContiguous) for gaps and negative
    /// strides. The tensor is dropped.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_rten::TensorExt;
    /// use rten_tensor::prelude::*;
    ///
    /// let mut rten = Tensor::from([[1, 2], [3, 4]]).into_rten_mut::<i32>()?;
    /// rten.apply(|x| 10 * x);
    /// assert_eq!(rten.to_vec(), [10, 20, 30, 40]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn into_rten_mut<T: Element>(self) -> Result<TensorBase<TensorStorageMut<T>, DynLayout>>;

    /// Copies the elements into a tensor that rten owns, from any strides and alignment.
    ///
    /// # Errors
    /// Those of [`Tensor::view`], except for alignment; [`OutOfMemory`](dlbridge::Error::OutOfMemory) if the
    /// allocation fails.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_rten::TensorExt;
    /// use rten_tensor::prelude::*;
    ///
    /// let rten: rten_tensor::Tensor<i32> = Tensor::from([[1, 2], [3, 4]]).flip(0)?.to_rten()?;
    /// assert_eq!(rten.to_vec(), [3, 4, 1, 2]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn to_rten<T: Element>(&self) -> Result<rten_tensor::Tensor<T>>;
}

/// Views of tensors as views of rten, for reading.
pub trait TensorViewExt<'a, T>: Sealed {
    /// The same elements as a view of rten.
    ///
    /// # Errors
    /// [`NotContiguous`](dlbridge::Error::NotContiguous) for gaps between the elements and negative strides.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_rten::TensorViewExt;
    ///
    /// let tensor = Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(tensor.view::<i32>()?.as_rten()?[[1, 0]], 3);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn as_rten(&self) -> Result<rten_tensor::TensorView<'a, T>>;
}

/// Views of tensors as views of rten, for reading and writing.
pub trait TensorViewMutExt<'a, T>: Sealed {
    /// The same elements as a mutable view of rten.
    ///
    /// # Errors
    /// As [`TensorViewExt::as_rten`].
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_rten::TensorViewMutExt;
    ///
    /// let mut tensor = Tensor::from([[1, 2], [3, 4]]);
    /// tensor.view_mut::<i32>()?.into_rten_mut()?.fill(7);
    /// assert_eq!(tensor.view::<i32>()?.to_vec(), [7; 4]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn into_rten_mut(self) -> Result<rten_tensor::TensorViewMut<'a, T>>;
}

impl Sealed for Tensor {}
impl<T> Sealed for TensorView<'_, T> {}
impl<T> Sealed for TensorViewMut<'_, T> {}

impl TensorExt for Tensor {
    fn into_rten<T: Element>(self) -> Result<TensorBase<TensorStorage<T>, DynLayout>> {
        const { assert!(T::CHECK.is_none(), "such elements must be checked before each access") }
        let view = self.view::<T>()?;
        let layout = Filled::of(view.shape(), view.strides())?;
        // The view's own pointer: a pointer made of a reference would not survive a write by the producer.
        let first = first(view.as_ptr().cast_mut());
        let stable = self.check_stable();
        match self.try_into_owner() {
            Ok(rten) if is_whole(&rten, first, &layout) => Ok(rten),
            Ok(rten) => {
                if !is_within(&rten, first, &layout) {
                    stable?;
                }
                let tensor = crate::RtenExt::into_tensor(rten)?;
                // SAFETY: the viewed tensor had this first element and layout as `T`, which does not have a check.
                // `tensor` keeps the owner of the viewed one. Nothing writes the elements: they are its own, and it
                // is immutable; or the viewed tensor was stable.
                Ok(unsafe { TensorStorage::over(first, layout, tensor) })
            }
            Err(tensor) => {
                tensor.check_stable()?;
                // SAFETY: the tensor was viewed as `T`, and this is its first element and its layout; `T` does not
                // have a check; the tensor is stable.
                Ok(unsafe { TensorStorage::over(first, layout, tensor) })
            }
        }
    }

    fn into_rten_mut<T: Element>(mut self) -> Result<TensorBase<TensorStorageMut<T>, DynLayout>> {
        const { assert!(T::CHECK.is_none(), "such elements must be checked before each access") }
        let mut view = self.view_mut::<T>()?;
        let first = first(view.as_mut_ptr());
        let layout = Filled::of(view.shape(), view.strides())?;
        match self.try_into_owner() {
            Ok(rten) if is_whole(&rten, first, &layout) => Ok(rten),
            Ok(rten) => {
                let tensor = crate::RtenExt::into_tensor(rten)?;
                // SAFETY: the tensor was viewed mutably as `T`, which does not have a check, so it was exclusive and no
                // elements overlap; this is its first element and its layout. The new `tensor` has its owner, and is
                // exclusive too.
                Ok(unsafe { TensorStorageMut::over(first, layout, tensor) })
            }
            // SAFETY: the tensor was viewed mutably as `T`, so it is exclusive and no elements overlap; this is its
            // first element and its layout; `T` does not have a check.
            Err(tensor) => Ok(unsafe { TensorStorageMut::over(first, layout, tensor) }),
        }
    }

    fn to_rten<T: Element>(&self) -> Result<rten_tensor::Tensor<T>> {
        let shape = extents(self.shape());
        let elements = TensorRef::from(self).to_vec()?;
        Ok(rten_tensor::Tensor::from_data(&shape, elements))
    }
}

impl<'a, T: Element> TensorViewExt<'a, T> for TensorView<'a, T> {
    fn as_rten(&self) -> Result<rten_tensor::TensorView<'a, T>> {
        let layout = Filled::of(self.shape(), self.strides())?;
        // SAFETY: each of these places is an element (Filled), and the view guarantees that it is aligned,
        // initialised, in one allocation, and not written by any code for `'a`.
        let elements = unsafe { slice::from_raw_parts(self.as_ptr(), layout.len) };
        let rten = rten_tensor::TensorView::from_slice_with_strides(
            &layout.shape,
            elements,
            &layout.strides,
        );
        Ok(rten.expect("the elements are those of the layout"))
    }
}

impl<'a, T: Element> TensorViewMutExt<'a, T> for TensorViewMut<'a, T> {
    fn into_rten_mut(mut self) -> Result<rten_tensor::TensorViewMut<'a, T>> {
        let layout = Filled::of(self.shape(), self.strides())?;
        // SAFETY: each of these places is an element (Filled), and the view guarantees that it is aligned, initialised
        // and in one allocation. No other code reads or writes it for `'a`, because this consumes the view.
        let elements = unsafe { slice::from_raw_parts_mut(self.as_mut_ptr(), layout.len) };
        let rten = rten_tensor::TensorViewMut::from_data_with_strides(
            &layout.shape,
            elements,
            &layout.strides,
        );
        Ok(rten.expect("all indices of a mutable view lead to different elements"))
    }
}

fn first<T>(first: *mut T) -> NonNull<T> {
    NonNull::new(first).expect("a view never has NULL")
}

/// Returns whether elements are in the storage of the owner of their tensor.
fn is_within<T>(
    rten: &TensorBase<TensorStorage<T>, DynLayout>,
    first: NonNull<T>,
    layout: &Filled,
) -> bool {
    let bytes = |elements: usize| elements.saturating_mul(size_of::<T>());
    let begin = first.addr().get().checked_sub(rten.data_ptr().addr());
    let end = begin.and_then(|begin| begin.checked_add(bytes(layout.len)));
    end.is_some_and(|end| end <= bytes(Storage::len(&rten.view().storage())))
}

/// Returns whether the owner of a tensor has the layout of the tensor.
fn is_whole<S: Storage>(
    rten: &TensorBase<S, DynLayout>,
    first: NonNull<S::Elem>,
    layout: &Filled,
) -> bool {
    rten.data_ptr() == first.as_ptr()
        && (rten.shape(), rten.strides()) == (&layout.shape, &layout.strides)
}
