//! Typed views: dtype, device, alignment and bits are checked once, when the view is made.
//!
//! - **View.** For every index within the shape, the element at `first` plus the index times the strides is an aligned,
//!   initialised, valid `T` within one allocation; no code writes it while the view is alive, and while a mutable view
//!   is alive no other code reads it either. Two indices of a mutable view never lead to the same element. `len` is the
//!   number of indices.

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::slice;

use crate::element::{Element, assert_layout};
use crate::layout::{self, Dims, Slice};
use crate::view::{Iter, IterMut};
use crate::{DataType, Error, Result};

/// A borrowed, typed view of a tensor with any number of dimensions and any strides.
///
/// Shape and strides count elements. [`Tensor::view`](crate::Tensor::view) makes it. It cannot outlive the tensor:
///
/// ```compile_fail,E0505
/// let tensor = dlbridge::Tensor::from(vec![1.0_f32]);
/// let view = tensor.view::<f32>().unwrap();
/// drop(tensor);
/// view.as_slice();
/// ```
///
/// ```
/// let tensor = dlbridge::Tensor::from([[1, 2, 3], [4, 5, 6]]);
/// let view = tensor.view::<i32>()?;
/// assert_eq!(view[[1, 0]], 4);
/// assert_eq!(view.as_slice(), Some(&[1, 2, 3, 4, 5, 6][..]));
/// # Ok::<(), dlbridge::Error>(())
/// ```
pub struct TensorView<'a, T> {
    first: NonNull<T>,
    dims: Dims<'a>,
    len: usize,
    memory: PhantomData<&'a [T]>,
}

// SAFETY: the view returns `&T` on the thread that it was sent to, as `T: Sync` allows; no code writes the elements
// (View).
unsafe impl<T: Sync> Send for TensorView<'_, T> {}
// SAFETY: shared access returns `&T` on other threads, as `T: Sync` allows; no code writes the elements (View).
unsafe impl<T: Sync> Sync for TensorView<'_, T> {}

impl<T> Clone for TensorView<'_, T> {
    fn clone(&self) -> Self {
        Self { dims: self.dims.clone(), ..*self }
    }
}

/// A borrowed, typed view of a tensor through which the elements can be written.
///
/// Made by [`Tensor::view_mut`](crate::Tensor::view_mut), one at a time:
///
/// ```compile_fail,E0499
/// let mut tensor = dlbridge::Tensor::from(vec![1.0_f32]);
/// let one = tensor.view_mut::<f32>().unwrap();
/// let two = tensor.view_mut::<f32>().unwrap();
/// drop(one);
/// ```
///
/// ```
/// let mut tensor = dlbridge::Tensor::from([[1, 2], [3, 4]]);
/// let mut view = tensor.view_mut::<i32>()?;
/// view[[0, 1]] = 20;
/// assert_eq!(view.as_mut_slice(), Some(&mut [1, 20, 3, 4][..]));
/// # Ok::<(), dlbridge::Error>(())
/// ```
pub struct TensorViewMut<'a, T> {
    view: TensorView<'a, T>,
    memory: PhantomData<&'a mut [T]>,
}

// `TensorView` is `Send` where `T` is `Sync`; a mutable view needs what `&mut [T]` needs, and every
// `Element` is both.

impl<'a, T: Element> TensorView<'a, T> {
    /// Views elements, whose bits are checked if the type demands it.
    ///
    /// # Safety
    /// View holds, except that the bits may be invalid.
    #[inline]
    pub(crate) unsafe fn new(
        first: NonNull<T>,
        dims: Dims<'a>,
        len: usize,
        dtype: DataType,
    ) -> Result<Self> {
        const { assert_layout::<T>() };
        let view = Self { first, dims, len, memory: PhantomData };
        if let Some(is_valid) = T::CHECK
            && !view.all_bytes(is_valid)
        {
            return Err(Error::InvalidElement { dtype });
        }
        Ok(view)
    }

    /// True if a check accepts the bytes of each element, which need not be valid yet.
    fn all_bytes(&self, check: fn(&[u8]) -> bool) -> bool {
        let first = self.first;
        layout::all_reached(&self.dims, |offset| {
            // SAFETY: View, except that the bits may be invalid: reading them as bytes needs no valid `T`, and an
            // `Element` has no padding.
            check(unsafe {
                slice::from_raw_parts(first.offset(offset).cast().as_ptr(), size_of::<T>())
            })
        })
    }
}

impl<'a, T> TensorView<'a, T> {
    /// The extents, in elements.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from([[0_u8; 3]; 2]);
    /// assert_eq!(tensor.view::<u8>()?.shape(), [2, 3]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    #[inline]
    pub fn shape(&self) -> &[i64] {
        self.dims.shape()
    }

    /// The strides, in elements.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from([[0_u8; 3]; 2]);
    /// assert_eq!(tensor.view::<u8>()?.strides(), [3, 1]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    #[inline]
    pub fn strides(&self) -> &[i64] {
        self.dims.strides()
    }

    /// The number of elements.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from([[0_u8; 3]; 2]);
    /// assert_eq!(tensor.view::<u8>()?.len(), 6);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The address of the element at index zero; dangling if the view is empty.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from(vec![7_u8, 8]);
    /// let view = tensor.view::<u8>()?;
    /// assert_eq!(view.as_ptr(), view.as_slice().unwrap().as_ptr());
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    #[inline]
    pub fn as_ptr(&self) -> *const T {
        self.first.as_ptr()
    }

    /// The elements as one slice, if they are contiguous in C order.
    ///
    /// Axes of extent 1 never matter, and a view without elements is an empty slice.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let every_second = Tensor::from_parts_strided(vec![1, 2, 3, 4], [2], [2], 0)?;
    /// assert_eq!(every_second.view::<i32>()?.as_slice(), None);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn as_slice(&self) -> Option<&'a [T]> {
        if !layout::is_c_contiguous(self.shape(), self.strides()) {
            return None;
        }
        // SAFETY: View: `len` contiguous elements from the first; an empty slice needs no memory.
        Some(unsafe { slice::from_raw_parts(self.first.as_ptr(), self.len) })
    }

    /// The element at an index, which has one number for each dimension.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from([[1, 2], [3, 4]]);
    /// let view = tensor.view::<i32>()?;
    /// assert_eq!(view.get([1, 1]), Some(&4));
    /// assert_eq!(view.get([2, 0]), None);
    /// assert_eq!(view.get([0]), None);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn get(&self, index: impl AsRef<[usize]>) -> Option<&'a T> {
        let offset = layout::offset_of(self.shape(), self.strides(), index.as_ref())?;
        // SAFETY: View: an index within the shape.
        Some(unsafe { self.first.offset(offset).as_ref() })
    }

    /// The elements in index order, the last axis fastest.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let backwards = Tensor::from_parts_strided(vec![1, 2, 3], [3], [-1], 2)?;
    /// assert!(backwards.view::<i32>()?.iter().eq(&[3, 2, 1]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn iter(&self) -> Iter<'a, T> {
        // SAFETY: View holds for `first` and these dims, for `'a`.
        unsafe { Iter::new(self.first, &self.dims) }
    }

    /// The slice that `take` makes of the dims.
    pub(crate) fn sliced(&self, take: impl FnOnce(&Dims<'a>) -> Result<Slice>) -> Result<Self> {
        let Slice { dims, offset } = take(&self.dims)?;
        let len = layout::element_count(dims.shape())?;
        // SAFETY: Slice: the element at the slice's index zero is one of this view's, and so are all
        // its elements; the offset of a slice without elements is 0.
        let first = unsafe { self.first.offset(offset) };
        Ok(Self { first, dims, len, memory: PhantomData })
    }

    pub(crate) fn first(&self) -> NonNull<T> {
        self.first
    }

    /// The address of the first element, the dims, and the number of elements.
    pub(crate) fn into_raw(self) -> (*mut T, Dims<'a>, usize) {
        (self.first.as_ptr(), self.dims, self.len)
    }
}

impl<'a, T: Element> TensorViewMut<'a, T> {
    /// # Safety
    /// No other code reads or writes the elements for `'a`, and no two indices lead to the same one.
    pub(crate) unsafe fn new(view: TensorView<'a, T>) -> Self {
        Self { view, memory: PhantomData }
    }
}

impl<'a, T> TensorViewMut<'a, T> {
    /// The same elements, for reading.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2]);
    /// assert_eq!(tensor.view_mut::<i32>()?.as_view().shape(), [2]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn as_view(&self) -> TensorView<'_, T> {
        self.view.clone()
    }

    /// The shared view within. The caller uses only its description, not its elements.
    pub(crate) fn as_shared(&self) -> &TensorView<'a, T> {
        &self.view
    }

    /// The same elements, for reading and writing, for a shorter time.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2]);
    /// let mut view = tensor.view_mut::<i32>()?;
    /// view.as_view_mut().into_mut_slice().unwrap()[0] = 10;
    /// assert_eq!(view[[0]], 10);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn as_view_mut(&mut self) -> TensorViewMut<'_, T> {
        TensorViewMut { view: self.view.clone(), memory: PhantomData }
    }

    /// Turns the mutable view into a shared one with the same lifetime.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2]);
    /// let view = tensor.view_mut::<i32>()?.into_view();
    /// assert_eq!(view[[1]], 2);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn into_view(self) -> TensorView<'a, T> {
        self.view
    }

    /// The address of the element at index zero; dangling if the view is empty.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2]);
    /// assert!(tensor.view_mut::<i32>()?.as_mut_ptr().is_aligned());
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.view.first.as_ptr()
    }

    /// The elements as one slice, if they are contiguous in C order.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2]);
    /// tensor.view_mut::<i32>()?.as_mut_slice().unwrap().fill(7);
    /// assert_eq!(tensor.view::<i32>()?.as_slice(), Some(&[7, 7][..]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        if !layout::is_c_contiguous(self.view.shape(), self.view.strides()) {
            return None;
        }
        // SAFETY: View: `len` contiguous elements from the first, borrowed mutably through `self`.
        Some(unsafe { slice::from_raw_parts_mut(self.view.first.as_ptr(), self.view.len) })
    }

    /// The elements as one slice with the lifetime of the mutable view, if they are contiguous in C order.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2]);
    /// let slice: &mut [i32] = tensor.view_mut()?.into_mut_slice().unwrap();
    /// slice[0] = 10;
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn into_mut_slice(self) -> Option<&'a mut [T]> {
        if !layout::is_c_contiguous(self.view.shape(), self.view.strides()) {
            return None;
        }
        // SAFETY: View: `len` contiguous elements from the first, borrowed mutably for `'a`, and the view that borrowed
        // them is consumed.
        Some(unsafe { slice::from_raw_parts_mut(self.view.first.as_ptr(), self.view.len) })
    }

    /// The element at an index, which has one number for each dimension.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2]);
    /// *tensor.view_mut::<i32>()?.get_mut([1]).unwrap() = 5;
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn get_mut(&mut self, index: impl AsRef<[usize]>) -> Option<&mut T> {
        let offset = layout::offset_of(self.view.shape(), self.view.strides(), index.as_ref())?;
        // SAFETY: View: an index within the shape, borrowed mutably through `self`.
        Some(unsafe { self.view.first.offset(offset).as_mut() })
    }

    /// The elements in index order, the last axis fastest.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2]);
    /// tensor.view_mut::<i32>()?.iter_mut().for_each(|x| *x *= 10);
    /// assert_eq!(tensor.view::<i32>()?.as_slice(), Some(&[10, 20][..]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        // SAFETY: View, of a mutable view borrowed mutably.
        unsafe { IterMut::new(self.view.first, &self.view.dims) }
    }

    /// A slice that `take` makes of the dims it is given. `take` must not make elements overlap.
    pub(crate) fn sliced(self, take: impl FnOnce(&Dims<'a>) -> Result<Slice>) -> Result<Self> {
        Ok(Self { view: self.view.sliced(take)?, memory: PhantomData })
    }

    /// The elements in index order, with the lifetime of the mutable view.
    pub(crate) fn into_iter_mut(self) -> IterMut<'a, T> {
        // SAFETY: View, of a mutable view that is consumed.
        unsafe { IterMut::new(self.view.first, &self.view.dims) }
    }

    /// A second handle on the elements, for a split into two parts.
    ///
    /// # Safety
    /// The two handles are used for different elements.
    unsafe fn duplicate(&self) -> Self {
        Self { view: self.view.clone(), memory: PhantomData }
    }

    /// Splits an axis into the indices before `index` and those from it on.
    ///
    /// # Errors
    /// [`Error::InvalidAxis`]; [`Error::InvalidRange`] if `index` is more than the extent.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2, 3]);
    /// let (mut head, mut tail) = tensor.view_mut::<i32>()?.split_at(0, 1)?;
    /// std::mem::swap(&mut head[[0]], &mut tail[[1]]);
    /// assert_eq!(tensor.view::<i32>()?.as_slice(), Some(&[3, 2, 1][..]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn split_at(self, axis: usize, index: usize) -> Result<(Self, Self)> {
        // SAFETY: no index is in both ranges, so by View no element is in both parts.
        let head = unsafe { self.duplicate() }.sliced(|dims| dims.slice(axis, ..index))?;
        Ok((head, self.sliced(|dims| dims.slice(axis, index..))?))
    }
}
