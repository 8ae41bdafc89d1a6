//! Copies of elements in vectors.

use alloc::vec::Vec;
use core::mem::{self, MaybeUninit};
use core::ptr::NonNull;
use core::slice;

use super::strided::{self, Layouts};
use crate::layout::{self, Dims, Offsets};
use crate::memory;
use crate::{Element, Error, Result, TensorRef, TensorRefMut, TensorView, Unaligned};

impl TensorRef<'_> {
    /// Copies the elements in C order (the last axis fastest), also if they are not aligned.
    ///
    /// # Errors
    /// Those of [`TensorRef::view`], except for the alignment; [`Error::OutOfMemory`], because a tensor that repeats
    /// some elements may have more than fit in memory.
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
    /// A copy of the elements in C order (the last axis fastest). If the memory cannot be allocated, the process
    /// aborts, as with any [`Vec`]; [`Tensor::to_copy`](crate::Tensor::to_copy) returns an error.
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
        filled(self, in_huge_pages(Vec::with_capacity(self.len())))
    }
}

impl<T: Copy> TensorView<'_, T> {
    /// Appends the elements to a vector, each converted, in C order.
    ///
    /// # Errors
    /// `OutOfMemory` if the memory cannot be allocated.
    #[doc(hidden)]
    pub fn append_mapped<U: Copy>(&self, to: &mut Vec<U>, convert: impl Fn(T) -> U) -> Result<()> {
        let (begin, len) = (to.len(), self.len());
        let bytes = len.saturating_mul(size_of::<U>());
        to.try_reserve_exact(len).map_err(|_| Error::OutOfMemory { bytes, for_copy: true })?;
        let room = &mut to.spare_capacity_mut()[..len];
        memory::prefer_huge(NonNull::from(&mut *room).cast(), bytes);
        assert_eq!(mapped(self, room, convert), 0, "the runs have all elements");
        // SAFETY: `len` elements were written above.
        unsafe { to.set_len(begin + len) };
        Ok(())
    }

    /// Writes the elements to a contiguous tensor of as many elements, each converted, in C order.
    ///
    /// # Errors
    /// Those of [`TensorRefMut::into_view_mut`]; [`Error::NotContiguous`].
    ///
    /// # Panics
    /// If the numbers of elements differ.
    #[doc(hidden)]
    pub fn copy_mapped<U: Element>(
        &self,
        to: TensorRefMut<'_>,
        convert: impl Fn(T) -> U,
    ) -> Result<()> {
        let mut to = to.into_view_mut::<U>()?;
        if !layout::is_c_contiguous(to.shape(), to.strides()) {
            return Err(Error::NotContiguous);
        }
        let (len, first) = (to.len(), to.as_mut_ptr().cast::<MaybeUninit<U>>());
        assert_eq!(len, self.len(), "as many elements");
        if len > 0 {
            // SAFETY: View, of a mutable view that is consumed: contiguous elements, which may have any bytes as
            // `MaybeUninit`.
            mapped(self, unsafe { slice::from_raw_parts_mut(first, len) }, convert);
        }
        Ok(())
    }
}

/// Writes the elements of a view, each converted, in C order. Returns the number of places left.
#[inline]
fn mapped<T: Copy, U>(
    view: &TensorView<'_, T>,
    room: &mut [MaybeUninit<U>],
    convert: impl Fn(T) -> U,
) -> usize {
    // 16-byte registers are too short for the wider results of small elements.
    #[cfg(all(feature = "fast-copies", feature = "std", target_arch = "x86_64"))]
    if size_of::<T>() <= 2 && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2: just detected.
        return unsafe { mapped_avx2(view, room, convert) };
    }
    mapped_loops(view, room, convert)
}

/// # Safety
/// The processor has AVX2.
#[cfg(all(feature = "fast-copies", feature = "std", target_arch = "x86_64"))]
#[target_feature(enable = "avx2")]
unsafe fn mapped_avx2<T: Copy, U>(
    view: &TensorView<'_, T>,
    room: &mut [MaybeUninit<U>],
    convert: impl Fn(T) -> U,
) -> usize {
    mapped_loops(view, room, convert)
}

#[inline(always)]
fn mapped_loops<T: Copy, U>(
    view: &TensorView<'_, T>,
    mut room: &mut [MaybeUninit<U>],
    convert: impl Fn(T) -> U,
) -> usize {
    let contiguous = layout::is_c_contiguous(view.shape(), view.strides());
    let runs = match contiguous {
        true => Offsets::of_run(view.len()),
        false => Offsets::new(&Dims::borrowed(view.shape(), view.strides())),
    };
    runs.each_run(|start, step, run| {
        let (places, rest) = mem::take(&mut room).split_at_mut(run);
        room = rest;
        let first = view.as_ptr().wrapping_offset(start);
        // A separate loop for the constant step 1, so that the compiler vectorises it.
        if step == 1 {
            for (i, place) in places.iter_mut().enumerate() {
                // SAFETY: View: the run is one of the view.
                place.write(convert(unsafe { first.add(i).read() }));
            }
        } else {
            for (i, place) in places.iter_mut().enumerate() {
                let element = first.wrapping_offset(i as isize * step);
                // SAFETY: View: the run is one of the view, so `i` steps from its start lead to an element.
                place.write(convert(unsafe { element.read() }));
            }
        }
    });
    room.len()
}

/// Copies the elements of a view in C order, or returns an error if they do not fit in memory: a view with repeated
/// elements may have more of them than fit in memory.
fn try_to_vec<T: Copy>(view: &TensorView<'_, T>) -> Result<Vec<T>> {
    Ok(filled(view, with_room(view.len())?))
}

/// An empty vector with room for `len` elements.
fn with_room<T>(len: usize) -> Result<Vec<T>> {
    let mut elements = Vec::new();
    let bytes = len.saturating_mul(size_of::<T>());
    elements.try_reserve_exact(len).map_err(|_| Error::OutOfMemory { bytes, for_copy: true })?;
    Ok(in_huge_pages(elements))
}

/// Requests huge pages for a vector whose room is about to be written.
fn in_huge_pages<T>(mut elements: Vec<T>) -> Vec<T> {
    let room = elements.spare_capacity_mut();
    let bytes = size_of_val(room);
    memory::prefer_huge(NonNull::from(room).cast(), bytes);
    elements
}

/// Copies the elements of a view into an empty vector that has room for them.
fn filled<T: Copy>(view: &TensorView<'_, T>, mut elements: Vec<T>) -> Vec<T> {
    let len = view.len();
    assert!(elements.is_empty() && elements.capacity() >= len, "the vector is too small");
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
