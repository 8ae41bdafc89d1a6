//! Typed views: dtype, device, alignment and bits are checked once, when the view is made.
//!
//! - **View.** For every index within the shape, the element at `first` plus the index times the
//!   strides is an aligned, initialised, valid `T` within one allocation; nobody writes it while
//!   the view is alive, and while a mutable view is alive nobody else reads it either. Two indices
//!   of a mutable view never lead to the same element. `len` is the number of indices.

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::slice;

use super::block::Managed;
use super::element::{Element, assert_layout};
use super::parts::Access;
use crate::layout::{self, Offsets};
use crate::{DataType, Device, Error, Result};

/// A borrowed, typed view of a tensor with any number of dimensions and any strides.
///
/// Shape and strides count elements. Made by [`Tensor::view`](crate::Tensor::view), whose
/// tensor it cannot outlive:
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
    shape: &'a [i64],
    strides: &'a [i64],
    len: usize,
    memory: PhantomData<&'a [T]>,
}

// SAFETY: like `&[T]`.
unsafe impl<T: Sync> Send for TensorView<'_, T> {}
// SAFETY: like `&[T]`.
unsafe impl<T: Sync> Sync for TensorView<'_, T> {}

impl<T> Clone for TensorView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for TensorView<'_, T> {}

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
    /// Views the elements of a tensor whose dtype is `dtype`, a dtype with the layout of `T`.
    pub(crate) fn new(tensor: &'a Managed, dtype: DataType) -> Result<Self> {
        const { assert_layout::<T>() };
        let (shape, strides, t) = (tensor.shape(), tensor.strides(), tensor.tensor());
        let found = DataType::from(t.dtype);
        if found != dtype {
            return Err(Error::DataType { expected: dtype, found });
        }
        let device = Device::from(t.device);
        if !device.device_type().is_host_accessible() {
            return Err(Error::NotHostAccessible { device });
        }
        if dtype.is_subbyte() && !Access::subbyte_padded(tensor.flags()) {
            return Err(Error::SubbytePacked { dtype });
        }
        let len = layout::element_count(shape)?;
        let first = match NonNull::new(t.data.cast::<T>()) {
            Some(first) if len != 0 => first,
            _ => NonNull::dangling(),
        };
        if !first.is_aligned() {
            let (address, required) = (first.addr().get(), align_of::<T>());
            return Err(Error::Misaligned { address, required });
        }
        // View: Data and Calm of the tensor, borrowed for `'a`; the bits are checked below.
        let view = Self { first, shape, strides, len, memory: PhantomData };
        if let Some(is_valid) = T::CHECK
            && !view.bytes().all(is_valid)
        {
            return Err(Error::InvalidElement { dtype });
        }
        Ok(view)
    }

    /// The bytes of each element, which need not be valid yet.
    fn bytes(self) -> impl Iterator<Item = &'a [u8]> {
        self.offsets().map(move |offset| {
            // SAFETY: View, but for the validity of the bits, which bytes do not need; an `Element`
            // has no padding.
            unsafe {
                slice::from_raw_parts(self.first.offset(offset).cast().as_ptr(), size_of::<T>())
            }
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
    pub fn shape(&self) -> &'a [i64] {
        self.shape
    }

    /// The strides, in elements.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from([[0_u8; 3]; 2]);
    /// assert_eq!(tensor.view::<u8>()?.strides(), [3, 1]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn strides(&self) -> &'a [i64] {
        self.strides
    }

    /// The number of elements.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from([[0_u8; 3]; 2]);
    /// assert_eq!(tensor.view::<u8>()?.len(), 6);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.len
    }

    /// The address of the element at index zero; of no element if there is none.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from(vec![7_u8, 8]);
    /// let view = tensor.view::<u8>()?;
    /// assert_eq!(view.as_ptr(), view.as_slice().unwrap().as_ptr());
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn as_ptr(&self) -> *const T {
        self.first.as_ptr()
    }

    /// The elements as one slice, if they are adjacent in C order.
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
        if !layout::is_c_contiguous(self.shape, self.strides) {
            return None;
        }
        // SAFETY: View: `len` adjacent elements from the first; no elements need no memory.
        Some(unsafe { slice::from_raw_parts(self.first.as_ptr(), self.len) })
    }

    /// The element at an index, which has one number for each dimension.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from([[1, 2], [3, 4]]);
    /// let view = tensor.view::<i32>()?;
    /// assert_eq!(view.get(&[1, 1]), Some(&4));
    /// assert_eq!(view.get(&[2, 0]), None);
    /// assert_eq!(view.get(&[0]), None);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn get(&self, index: &[usize]) -> Option<&'a T> {
        let offset = layout::offset_of(self.shape, self.strides, index)?;
        // SAFETY: View: an index within the shape.
        Some(unsafe { self.first.offset(offset).as_ref() })
    }

    /// The elements in the order of their indices, the last axis fastest.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let backwards = Tensor::from_parts_strided(vec![1, 2, 3], [3], [-1], 2)?;
    /// assert!(backwards.view::<i32>()?.iter().eq(&[3, 2, 1]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a T> + use<'a, T> {
        let first = self.first;
        self.offsets().map(move |offset| {
            // SAFETY: View: the offset of an index within the shape.
            unsafe { first.offset(offset).as_ref() }
        })
    }

    pub(super) fn first(&self) -> NonNull<T> {
        self.first
    }

    fn offsets(&self) -> Offsets<'a> {
        Offsets::new(self.shape, self.strides)
    }
}

impl<'a, T: Element> TensorViewMut<'a, T> {
    pub(crate) fn new(tensor: &'a mut Managed, dtype: DataType) -> Result<Self> {
        match Access::of(tensor.flags()) {
            Access::ReadOnly => return Err(Error::ReadOnly),
            Access::Shared => return Err(Error::Shared),
            Access::Exclusive => {}
        }
        if layout::may_overlap(tensor.shape(), tensor.strides()) {
            return Err(Error::Overlapping);
        }
        // View: Exclusive, and the tensor is borrowed mutably for `'a`.
        Ok(Self { view: TensorView::new(tensor, dtype)?, memory: PhantomData })
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
        self.view
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
        TensorViewMut { view: self.view, memory: PhantomData }
    }

    /// The elements as a view for as long as the mutable one would have lasted.
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

    /// The address of the element at index zero; of no element if there is none.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2]);
    /// assert!(tensor.view_mut::<i32>()?.as_mut_ptr().is_aligned());
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.view.first.as_ptr()
    }

    /// The elements as one slice, if they are adjacent in C order.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2]);
    /// tensor.view_mut::<i32>()?.as_mut_slice().unwrap().fill(7);
    /// assert_eq!(tensor.view::<i32>()?.as_slice(), Some(&[7, 7][..]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        if !layout::is_c_contiguous(self.view.shape, self.view.strides) {
            return None;
        }
        // SAFETY: View: `len` adjacent elements from the first, borrowed mutably through `self`.
        Some(unsafe { slice::from_raw_parts_mut(self.view.first.as_ptr(), self.view.len) })
    }

    /// The elements as one slice for as long as the mutable view would have lasted, if they are
    /// adjacent in C order.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2]);
    /// let slice: &mut [i32] = tensor.view_mut()?.into_mut_slice().unwrap();
    /// slice[0] = 10;
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn into_mut_slice(self) -> Option<&'a mut [T]> {
        if !layout::is_c_contiguous(self.view.shape, self.view.strides) {
            return None;
        }
        // SAFETY: View: `len` adjacent elements from the first, borrowed mutably for `'a`, and the
        // view that borrowed them is consumed.
        Some(unsafe { slice::from_raw_parts_mut(self.view.first.as_ptr(), self.view.len) })
    }

    /// The element at an index, which has one number for each dimension.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2]);
    /// *tensor.view_mut::<i32>()?.get_mut(&[1]).unwrap() = 5;
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn get_mut(&mut self, index: &[usize]) -> Option<&mut T> {
        let offset = layout::offset_of(self.view.shape, self.view.strides, index)?;
        // SAFETY: View: an index within the shape, borrowed mutably through `self`.
        Some(unsafe { self.view.first.offset(offset).as_mut() })
    }

    /// The elements in the order of their indices, the last axis fastest.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2]);
    /// tensor.view_mut::<i32>()?.iter_mut().for_each(|x| *x *= 10);
    /// assert_eq!(tensor.view::<i32>()?.as_slice(), Some(&[10, 20][..]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut T> {
        let first = self.view.first;
        self.view.offsets().map(move |offset| {
            // SAFETY: View: each offset is of another index within the shape, and so of another
            // element; all are borrowed mutably through `self`.
            unsafe { first.offset(offset).as_mut() }
        })
    }
}
