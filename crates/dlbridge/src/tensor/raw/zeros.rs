//! New tensors of zeros.

use core::ptr::NonNull;
use core::slice;

use crate::block::{Managed, RawParts, Undescribed};
use crate::memory::{self, AlignedBytes};
use crate::threads::{self, Place};
use crate::{Access, DataType, Element, Error, MAX_NDIM, Result, Tensor, layout};

/// A tensor in C order whose bytes are all zero, at a multiple of `alignment`, a power of two. Elements narrower than a
/// byte are `padded` to whole bytes, or packed.
pub(crate) fn zeroed(
    dtype: DataType,
    padded: bool,
    shape: &[usize],
    alignment: usize,
) -> Result<Managed> {
    // SAFETY: the memory is zero.
    unsafe { made(dtype, padded, shape, |bytes| AlignedBytes::zeroed(bytes, alignment, false)) }
}

/// A tensor over new memory.
///
/// # Safety
/// The memory is initialised, or the caller writes each element before anything reads it.
unsafe fn made(
    dtype: DataType,
    padded: bool,
    shape: &[usize],
    allocate: impl FnOnce(usize) -> Result<AlignedBytes>,
) -> Result<Managed> {
    if shape.len() > MAX_NDIM {
        return Err(Error::InvalidNdim { ndim: shape.len() as i64 });
    }
    dtype.check()?;
    let elements = shape.iter().try_fold(1_usize, |n, &extent| n.checked_mul(extent));
    // A shape with an extent of zero has no elements, even if the product of the others overflows.
    let elements = if shape.contains(&0) { Some(0) } else { elements };
    let elements = elements.ok_or(Error::TooLarge)?;
    let bytes = layout::byte_count(elements, dtype, padded);
    let bytes = usize::try_from(bytes).map_err(|_| Error::TooLarge)?;
    let mut memory = allocate(bytes)?;
    let data = memory.as_mut_ptr();
    let mut block = Undescribed::new(memory, shape.len());
    let elements = block.set_dims(shape, None::<&[i64]>)?;
    let parts = RawParts {
        access: Access::Exclusive,
        subbyte_padded: padded,
        ..RawParts::new(data.cast(), dtype)
    };
    // SAFETY: new memory with room for all elements, initialised, as the caller promises; no other code has its address,
    // and the owner frees it.
    unsafe { block.describe(&parts, elements, None) }
}

impl Tensor {
    /// Makes a tensor in C order whose memory has any bytes, for a copy: allocators write zeros again to memory that was
    /// used before.
    ///
    /// # Errors
    /// Those of [`Tensor::zeroed`].
    ///
    /// # Safety
    /// The caller writes each element, by [`TensorRefMut::copy_from`] or [`TensorView::copy_mapped`], before anything reads
    /// the tensor.
    ///
    /// [`TensorRefMut::copy_from`]: crate::TensorRefMut::copy_from
    /// [`TensorView::copy_mapped`]: crate::TensorView::copy_mapped
    #[doc(hidden)]
    pub unsafe fn uninit(dtype: DataType, shape: impl AsRef<[usize]>) -> Result<Self> {
        let allocate = |bytes| AlignedBytes::for_copy(bytes, 1);
        // SAFETY: the caller promises it.
        unsafe { made(dtype, false, shape.as_ref(), allocate) }.map(Self::from_managed)
    }

    /// Makes a tensor in C order of the elements that `fill` writes, in parts, on the threads of a copy. It gets the
    /// number of the first element of each part. The lengths of the parts are multiples of `unit`, except for the last.
    ///
    /// `T` is an integer or float of as many bytes as an element.
    ///
    /// # Errors
    /// Those of [`Tensor::zeroed`].
    ///
    /// # Panics
    /// If `T` has another size, and if `fill` panics on any thread.
    #[doc(hidden)]
    pub fn filled<T: Element>(
        dtype: DataType,
        shape: impl AsRef<[usize]>,
        unit: usize,
        fill: &(impl Fn(usize, &mut [T]) + Sync),
    ) -> Result<Self> {
        const { assert!(T::CHECK.is_none(), "zeros might be invalid elements") }
        assert_eq!(size_of::<T>(), dtype.itemsize(), "the size of {dtype}");
        let tensor = Self::zeroed(dtype, shape)?;
        let (first, len, bytes) = (tensor.data(), tensor.len(), tensor.nbytes() as usize);
        let Some(block) = NonNull::new(first.cast()).filter(|_| len > 0) else { return Ok(tensor) };
        memory::prefer_huge(block, bytes);
        let first = Place(first.cast());
        threads::split(len.div_ceil(unit), threads::parts(bytes), 1, &|begin, end| {
            let (begin, end) = (begin * unit, len.min(end * unit));
            let part = first.at(begin * size_of::<T>()).cast::<T>();
            // SAFETY: initialised elements of a new tensor, whose address no other code has, aligned to 256 bytes; other
            // threads have other parts. Any bytes are a `T` without a check.
            fill(begin, unsafe { slice::from_raw_parts_mut(part, end - begin) });
        });
        Ok(tensor)
    }
}
