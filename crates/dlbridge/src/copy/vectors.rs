//! Elements as vectors.

use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::strided::{self, Layouts};
use crate::memory::pages;
use crate::{Element, Error, Result, TensorRef, TensorView, Unaligned, layout};

impl TensorRef<'_> {
    /// Copies the elements in C order (the last axis fastest), also if they are not aligned.
    ///
    /// # Errors
    /// Those of [`TensorRef::view`], except for the alignment; [`Error::OutOfMemory`], because a tensor that repeats some
    /// elements may have more than fit in memory.
    ///
    /// ```
    /// use dlbridge::{DataType, Error, Tensor, TensorRef};
    ///
    /// let columns = TensorRef::from(&[[1, 2], [3, 4]]).transpose();
    /// assert_eq!(columns.to_vec::<i32>()?, [1, 3, 2, 4]);
    ///
    /// let odd = Tensor::from_bytes(vec![0_u8, 1, 1, 2, 2], DataType::UINT16, [2], 1)?;
    /// assert_eq!(TensorRef::from(&odd).to_vec::<u16>()?, [0x0101, 0x0202]);
    ///
    /// let repeated = Tensor::from_parts_strided(vec![7_u8], [1 << 46], [0], 0)?;
    /// let refused = TensorRef::from(&repeated).to_vec::<u8>();
    /// assert_eq!(refused, Err(Error::OutOfMemory { bytes: 1 << 46, for_copy: true }));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        match self.view::<T>() {
            Ok(view) => try_to_vec(&view),
            Err(Error::Misaligned { .. }) => {
                let view = self.view::<Unaligned<T>>()?;
                let mut elements = with_room(view.len())?;
                elements.extend(view.iter().map(|element| element.get()));
                Ok(elements)
            }
            Err(error) => Err(error),
        }
    }
}

impl<T> TensorView<'_, T> {
    /// A copy of the elements in C order (the last axis fastest). Without memory for it
    /// the process aborts, as with any [`Vec`]; [`Tensor::to_copy`](crate::Tensor::to_copy) returns an
    /// error.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(tensor.view::<i32>()?.to_vec(), [1, 2, 3, 4]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn to_vec(&self) -> Vec<T>
    where
        T: Copy,
    {
        filled(self, Vec::with_capacity(self.len()))
    }
}

impl<T: Copy> TensorView<'_, T> {
    /// Appends the elements to a vector, each converted, in C order.
    ///
    /// # Errors
    /// `OutOfMemory` without room for them.
    #[doc(hidden)]
    pub fn append_mapped<U: Copy>(&self, to: &mut Vec<U>, convert: impl Fn(T) -> U) -> Result<()> {
        let (begin, len) = (to.len(), self.len());
        let bytes = len.saturating_mul(size_of::<U>());
        to.try_reserve_exact(len).map_err(|_| Error::OutOfMemory { bytes, for_copy: true })?;
        let first = to.spare_capacity_mut().as_mut_ptr();
        let written = self.iter().fold(0, |written, &value| {
            // SAFETY: the iterator yields `len` elements (View), and there is room for them.
            unsafe { first.add(written).write(MaybeUninit::new(convert(value))) };
            written + 1
        });
        assert_eq!(written, len, "an iterator yields all elements");
        // SAFETY: `len` elements were written above.
        unsafe { to.set_len(begin + len) };
        Ok(())
    }
}

/// The elements of a view in C order, or an error without memory for them: a view that repeats some may have more than there is room for.
fn try_to_vec<T: Copy>(view: &TensorView<'_, T>) -> Result<Vec<T>> {
    Ok(filled(view, with_room(view.len())?))
}

/// An empty vector with room for `len` elements.
fn with_room<T>(len: usize) -> Result<Vec<T>> {
    let mut elements = Vec::new();
    let bytes = len.saturating_mul(size_of::<T>());
    elements.try_reserve_exact(len).map_err(|_| Error::OutOfMemory { bytes, for_copy: true })?;
    Ok(elements)
}

/// The elements of a view in an empty vector that has room for them.
fn filled<T: Copy>(view: &TensorView<'_, T>, mut elements: Vec<T>) -> Vec<T> {
    let len = view.len();
    assert!(elements.is_empty() && elements.capacity() >= len, "the vector is too small");
    pages::prefer_huge(NonNull::from(elements.spare_capacity_mut()).cast(), len * size_of::<T>());
    if len != 0 {
        let (shape, mut to_strides) = (view.shape(), alloc::vec![0; view.ndim()]);
        layout::c_strides(shape, |axis, stride| to_strides[axis] = stride);
        let (from, to) = (view.as_ptr().cast(), elements.as_mut_ptr());
        // SAFETY: View; the vector has room for all elements in C order, which are written here.
        unsafe {
            let (strides, itemsize) = (view.strides(), size_of::<T>());
            let layouts = Layouts { shape, from: strides, to: &to_strides, itemsize };
            strided::copy_strided(from, to.cast(), &layouts);
            elements.set_len(len);
        }
    }
    elements
}
