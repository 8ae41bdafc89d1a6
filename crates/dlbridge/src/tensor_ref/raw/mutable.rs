//! Writable borrowed tensors of any dtype. Their invariant is Ref of `tensor_ref/`.

use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ptr;

use crate::block::Managed;
use crate::block::RawParts;
use crate::element::Element;
use crate::element::Items;
use crate::layout::{self, Dims, Slice};
use crate::tensor_ref::DLTensorRef;
use crate::tensor_ref::TensorRef;
use crate::view::TensorViewMut;
use crate::{Access, Error, Result};

/// A writable borrowed tensor of any dtype.
///
/// ```
/// use dlbridge::{TensorRef, TensorRefMut};
///
/// let mut target = [0_i32; 6];
/// let columns = TensorRefMut::from(&mut target).reshape([3, 2])?.transpose();
/// columns.copy_from(&TensorRef::from(&[[1, 2, 3], [4, 5, 6]]))?;
/// assert_eq!(target, [1, 4, 2, 5, 3, 6]);
/// # Ok::<(), dlbridge::Error>(())
/// ```
pub struct TensorRefMut<'a> {
    tensor: TensorRef<'a>,
    memory: PhantomData<&'a mut [u8]>,
}

/// The shape is the length, then the extents of nested arrays. Types whose bits need a check, like `bool`, do not
/// compile: a C kernel would write without the check.
///
/// Panics for arrays without elements whose number overflows the address space.
impl<'a, I: Items> From<&'a mut [I]> for TensorRefMut<'a> {
    fn from(items: &'a mut [I]) -> Self {
        const { assert!(I::Element::CHECK.is_none(), "a C kernel might write invalid elements") }
        let tensor = TensorRef::adjacent(ptr::from_mut(items));
        // Ref: borrowed mutably for `'a`.
        Self { tensor, memory: PhantomData }
    }
}

/// The shape is the extents of the arrays. The limit on element types is that of slices.
impl<'a, I: Items, const N: usize> From<&'a mut [I; N]> for TensorRefMut<'a> {
    fn from(items: &'a mut [I; N]) -> Self {
        Self::from(items.as_mut_slice())
    }
}

/// The shape is the length, then the extents of nested arrays. The limit on element types is that of slices.
impl<'a, I: Items> From<&'a mut Vec<I>> for TensorRefMut<'a> {
    fn from(items: &'a mut Vec<I>) -> Self {
        Self::from(items.as_mut_slice())
    }
}

/// Types whose bits need a check, like `bool`, do not compile: a C kernel would write without the check.
impl<'a, T: Element> From<TensorViewMut<'a, T>> for TensorRefMut<'a> {
    fn from(view: TensorViewMut<'a, T>) -> Self {
        const { assert!(T::CHECK.is_none(), "a C kernel might write invalid elements") }
        // Ref follows from View: the mutable view is consumed.
        Self { tensor: TensorRef::from(view.into_view()), memory: PhantomData }
    }
}

impl<'a> TensorRef<'a> {
    /// Declares that only the holder uses the data, so that it can be written.
    ///
    /// # Errors
    /// [`Error::Overlapping`] if two indices may lead to one element.
    ///
    /// # Safety
    /// For `'a` no other code reads or writes the elements, which are valid for writes. Code that uses them afterwards
    /// is sound with any bytes in them.
    ///
    /// ```
    /// use dlbridge::{Access, RawParts, TensorRef};
    ///
    /// let mut values = [1_i32, 2];
    /// let parts = RawParts::of_elements(values.as_mut_ptr(), Access::Exclusive);
    /// // SAFETY: two integers, which no other code uses meanwhile.
    /// let tensor = unsafe { TensorRef::from_raw_parts(&parts, &[2], None::<&[i64]>)?.assume_exclusive() }?;
    /// tensor.into_view_mut::<i32>()?[[0]] = 5;
    /// assert_eq!(values, [5, 2]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub unsafe fn assume_exclusive(self) -> Result<TensorRefMut<'a>> {
        if layout::may_overlap(self.shape(), self.strides()) {
            return Err(Error::Overlapping);
        }
        // Ref: the caller guarantees that only the holder uses the elements for `'a`, and that they are valid for
        // writes; no two indices lead to one of them.
        Ok(TensorRefMut { tensor: self, memory: PhantomData })
    }
}

impl<'a> TensorRefMut<'a> {
    /// The tensor of a block.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] or [`Error::Shared`] unless it is exclusive; [`Error::Overlapping`] if two indices may lead
    /// to one element.
    pub(crate) fn of(managed: &'a mut Managed) -> Result<Self> {
        match managed.access() {
            Access::ReadOnly | Access::Immutable => return Err(Error::ReadOnly),
            Access::Shared => return Err(Error::Shared),
            Access::Exclusive => {}
        }
        if layout::may_overlap(managed.shape(), managed.strides()) {
            return Err(Error::Overlapping);
        }
        // Ref: Exclusive, and the tensor is borrowed mutably for `'a`.
        Ok(Self { tensor: TensorRef::new(managed), memory: PhantomData })
    }

    /// Borrows memory mutably as a tensor; adapters use it. Without `strides` the elements are in C order. Extents and
    /// strides count elements.
    ///
    /// # Errors
    /// Returns an error if the parts are invalid.
    ///
    /// # Safety
    /// The contract of [`TensorRef::from_raw_parts`], and for `'a` no other code reads or writes the elements, which
    /// are valid for writes. No two indices lead to one of them. Code that uses them afterwards is sound with any bytes
    /// in them.
    ///
    /// ```
    /// use dlbridge::{Access, RawParts, TensorRefMut};
    ///
    /// let mut values = [1.0_f32, 2.0, 3.0, 4.0];
    /// let parts = RawParts::of_elements(values.as_mut_ptr(), Access::Exclusive);
    /// // SAFETY: four floats, borrowed mutably as long as the tensor.
    /// let columns = unsafe { TensorRefMut::from_raw_parts(&parts, &[2, 2], Some(&[1, 2])) }?;
    /// columns.into_view_mut::<f32>()?[[0, 1]] = 10.0;
    /// assert_eq!(values, [1.0, 2.0, 10.0, 4.0]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub unsafe fn from_raw_parts<S, T>(
        parts: &RawParts,
        shape: &[S],
        strides: Option<&[T]>,
    ) -> Result<Self>
    where
        S: Copy + TryInto<i64>,
        T: Copy + TryInto<i64>,
    {
        // SAFETY: the caller guarantees the contract of `TensorRef::from_raw_parts`, which excludes other writers, and
        // beyond it that no other code reads the elements.
        let tensor = unsafe { TensorRef::from_raw_parts(parts, shape, strides) }?;
        Ok(Self { tensor, memory: PhantomData })
    }

    /// The same tensor, for reading.
    ///
    /// ```
    /// let mut values = [1_u8, 2];
    /// let tensor = dlbridge::TensorRefMut::from(&mut values);
    /// assert_eq!(tensor.as_tensor_ref().len(), 2);
    /// ```
    pub fn as_tensor_ref(&self) -> TensorRef<'_> {
        self.tensor.clone()
    }

    /// The shared tensor within. The caller uses only its description, not its elements.
    pub(crate) fn as_shared(&self) -> &TensorRef<'a> {
        &self.tensor
    }

    /// The shared tensor within, for a view that replaces this tensor.
    pub(crate) fn into_shared(self) -> TensorRef<'a> {
        self.tensor
    }

    /// The same tensor, for reading and writing, for a shorter time.
    ///
    /// ```
    /// use dlbridge::{TensorRef, TensorRefMut};
    ///
    /// let mut values = [1_u8, 2];
    /// let mut tensor = TensorRefMut::from(&mut values);
    /// tensor.as_tensor_ref_mut().copy_from(&TensorRef::from(&[3_u8, 4]))?;
    /// assert_eq!(tensor.as_tensor_ref().view::<u8>()?.to_vec(), [3, 4]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn as_tensor_ref_mut(&mut self) -> TensorRefMut<'_> {
        TensorRefMut { tensor: self.tensor.clone(), memory: PhantomData }
    }

    /// Views the elements as `T`, for reading and writing.
    ///
    /// # Errors
    /// Those of [`Tensor::view_mut`](crate::Tensor::view_mut).
    ///
    /// ```
    /// let mut values = [1_u8, 2];
    /// dlbridge::TensorRefMut::from(&mut values).into_view_mut::<u8>()?[[0]] = 5;
    /// assert_eq!(values, [5, 2]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn into_view_mut<T: Element>(self) -> Result<TensorViewMut<'a, T>> {
        let view = self.tensor.into_view(T::DATA_TYPE)?;
        // SAFETY: Ref, of a mutable one that is consumed.
        Ok(unsafe { TensorViewMut::new(view) })
    }

    /// The description for a C kernel that writes the elements, for the length of a call. The kernel
    /// must not keep a pointer.
    ///
    /// ```
    /// use dlbridge::{TensorRefMut, sys::DLTensor};
    ///
    /// unsafe extern "C" fn kernel(t: *mut DLTensor) {
    ///     // SAFETY: the caller passes a tensor of at least one f32.
    ///     unsafe { *(*t).data.cast::<f32>() = 7.0 };
    /// }
    ///
    /// let mut values = [1.0_f32, 2.0];
    /// let mut tensor = TensorRefMut::from(&mut values);
    /// // SAFETY: the kernel keeps nothing.
    /// unsafe { kernel(&mut *tensor.dl_tensor()) };
    /// assert_eq!(values, [7.0, 2.0]);
    /// ```
    pub fn dl_tensor(&mut self) -> DLTensorRef<'_> {
        self.tensor.dl_tensor()
    }

    /// Splits an axis into the indices before `index` and those from it on, for example for several threads.
    ///
    /// # Errors
    /// [`Error::InvalidAxis`]; [`Error::InvalidRange`] if `index` is more than the extent; [`Error::SubbytePacked`], since
    /// elements of both parts may share a byte.
    ///
    /// ```
    /// let mut values = [1_u8, 2, 3];
    /// let (head, tail) = dlbridge::TensorRefMut::from(&mut values).split_at(0, 1)?;
    /// assert_eq!((head.len(), tail.len()), (1, 2));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn split_at(self, axis: usize, index: usize) -> Result<(Self, Self)> {
        if self.tensor.is_subbyte_packed() {
            return Err(Error::SubbytePacked { dtype: self.tensor.dtype() });
        }
        let head = self.tensor.sliced(|dims| dims.slice(axis, ..index))?;
        // Ref: no index is in both ranges, no two indices lead to one element, and no two elements share a byte.
        let head = Self { tensor: head, memory: PhantomData };
        Ok((head, self.sliced(|dims| dims.slice(axis, index..))?))
    }

    /// The slice that `take` makes of the dims. `take` must not make elements overlap.
    pub(crate) fn sliced(self, take: impl FnOnce(&Dims<'a>) -> Result<Slice>) -> Result<Self> {
        Ok(Self { tensor: self.tensor.sliced(take)?, memory: PhantomData })
    }
}
