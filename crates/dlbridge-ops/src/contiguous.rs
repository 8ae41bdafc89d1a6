//! Tensors on the CPU whose elements are in C order without gaps, as functions take them most often. They are a third of
//! the size of a `TensorRef`, which can describe every tensor, so a call of few elements takes half of the time.
//!
//! - **Elements.** For `'a` there are `len` elements of `dtype` from `data` on, in one allocation that the CPU reads; `len`
//!   is the product of the extents. No code writes them. `ContiguousMut`: they are valid for writes, and no other code
//!   reads them either. No reference to them is made while `stale` is true, except as [`Uninit`].

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Range;
use std::slice;

use dlbridge::{DataType, Element, TensorRef, TensorRefMut};

use crate::error::Result;
use crate::uninit::Uninit;

/// A tensor that the function reads.
#[doc(hidden)]
pub struct Contiguous<'a> {
    data: *mut c_void,
    len: usize,
    bytes: usize,
    shape: &'a [i64],
    dtype: DataType,
    memory: PhantomData<&'a [u8]>,
}

/// A tensor that the function writes.
#[doc(hidden)]
pub struct ContiguousMut<'a> {
    tensor: Contiguous<'a>,
    /// An output with the bytes that the memory had before the call. Zeros replace them, unless the function only writes.
    stale: bool,
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: Elements: no code writes the data, so that any thread may read it.
unsafe impl Send for Contiguous<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for Contiguous<'_> {}

impl<'a> Contiguous<'a> {
    /// `None` if the elements are not whole bytes, or if there are none.
    ///
    /// # Safety
    /// For `'a` the elements of this shape lie in C order from `data` on, in one allocation that the CPU reads, valid for
    /// reads with some value in each byte, and no code writes them.
    #[inline]
    pub(crate) unsafe fn new(data: *mut c_void, dtype: DataType, shape: &'a [i64]) -> Option<Self> {
        let mut len = 1_isize;
        for extent in shape {
            len = len.checked_mul(isize::try_from(*extent).ok().filter(|extent| *extent > 0)?)?;
        }
        let bytes = len.checked_mul(dtype.itemsize() as isize)?;
        let fits = !data.is_null() && data.addr().checked_add(bytes as usize).is_some();
        // Elements: the caller guarantees the memory, and `len` is the product of the extents.
        (fits && !dtype.is_subbyte()).then_some(Self {
            data,
            len: len as usize,
            bytes: bytes as usize,
            shape,
            dtype,
            memory: PhantomData,
        })
    }

    /// Declares that only the holder uses the elements, so that they can be written. `stale`: those of an output.
    ///
    /// # Safety
    /// For `'a` no other code reads or writes the elements, which are valid for writes. Code that uses them afterwards is
    /// sound with any bytes in them.
    pub(crate) unsafe fn assume_exclusive(self, stale: bool) -> ContiguousMut<'a> {
        // Elements: the caller guarantees this contract.
        ContiguousMut { tensor: self, stale, memory: PhantomData }
    }

    #[inline]
    pub(crate) fn dtype(&self) -> DataType {
        self.dtype
    }

    #[inline]
    pub(crate) fn shape(&self) -> &'a [i64] {
        self.shape
    }

    /// The number of bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The addresses of the bytes.
    #[inline]
    pub(crate) fn addresses(&self) -> Range<usize> {
        let first = self.data.addr();
        first..first + self.bytes
    }

    /// Returns true if the elements are aligned for their type.
    #[inline]
    pub(crate) fn is_aligned(&self, align: usize) -> bool {
        self.data.addr().is_multiple_of(align)
    }

    /// Returns true if the elements are of this type, and every bit pattern is valid for it.
    #[inline]
    fn is_of<T: Element>(&self) -> bool {
        self.dtype == T::DATA_TYPE && T::CHECK.is_none() && self.is_aligned(align_of::<T>())
    }

    /// The elements, unless they are of another type, not aligned for it, or of a type whose bits need a check.
    #[inline]
    pub(crate) fn elements<T: Element>(&self) -> Option<&'a [T]> {
        // SAFETY: Elements: `len` elements for `'a` that no code writes. They are of the type's dtype, aligned,
        // and valid whatever their bits are.
        self.is_of::<T>().then(|| unsafe { slice::from_raw_parts(self.data.cast(), self.len) })
    }

    /// The tensor in the form for every tensor.
    pub(crate) fn to_tensor_ref(&self) -> Result<TensorRef<'a>> {
        let parts = dlbridge::RawParts::new(self.data, self.dtype);
        // SAFETY: Elements.
        Ok(unsafe { TensorRef::from_raw_parts(&parts, self.shape, None::<&[i64]>) }?)
    }
}

impl<'a> ContiguousMut<'a> {
    /// The same tensor, for questions about it.
    #[inline]
    pub(crate) fn tensor(&self) -> &Contiguous<'a> {
        &self.tensor
    }

    /// The address of the first element, for writing, and true for a stale output.
    #[inline]
    pub(crate) fn data(&self) -> (*mut c_void, bool) {
        (self.tensor.data, self.stale)
    }

    /// Writes zeros to a stale output.
    #[inline]
    fn refresh(&mut self) {
        if std::mem::take(&mut self.stale) {
            // SAFETY: Elements: that many bytes, valid for writes, and only the holder uses them.
            unsafe { self.tensor.data.cast::<u8>().write_bytes(0, self.tensor.bytes) };
        }
    }

    /// The elements for writing only, unless they are as for [`into_elements`](Self::into_elements).
    #[inline]
    pub(crate) fn into_uninit<T: Element>(self) -> std::result::Result<&'a mut [Uninit<T>], Self> {
        if !self.tensor.is_of::<T>() {
            return Err(self);
        }
        let Contiguous { data, len, .. } = self.tensor;
        // SAFETY: Elements: as for `into_elements`; `Uninit` has the layout of the type. Bytes: `is_of` found
        // that every bit pattern is valid.
        Ok(unsafe { slice::from_raw_parts_mut(data.cast(), len) })
    }

    /// The elements, unless they are of another type, not aligned for it, or of a type whose bits need a check.
    #[inline]
    pub(crate) fn into_elements<T: Element>(mut self) -> std::result::Result<&'a mut [T], Self> {
        if !self.tensor.is_of::<T>() {
            return Err(self);
        }
        self.refresh();
        let Contiguous { data, len, .. } = self.tensor;
        // SAFETY: Elements: `len` elements for `'a`, which only the holder uses, and who gives them away here. They are of
        // the type's dtype, aligned, and valid whatever their bits are.
        Ok(unsafe { slice::from_raw_parts_mut(data.cast(), len) })
    }

    /// The tensor in the form for every tensor.
    pub(crate) fn into_tensor_ref_mut(mut self) -> Result<TensorRefMut<'a>> {
        self.refresh();
        let tensor = self.tensor.to_tensor_ref()?;
        // SAFETY: Elements: only the holder uses them, and gives the tensor away.
        Ok(unsafe { tensor.assume_exclusive() }?)
    }
}

/// Returns true if the strides are those of C order, or there are none.
#[inline]
pub(crate) fn is_c_order(shape: &[i64], strides: &[i64]) -> bool {
    let mut step = 1_i64;
    let pairs = shape.iter().zip(strides).rev();
    pairs.into_iter().all(|(extent, stride)| {
        let fits = *extent == 1 || *stride == step;
        step = step.wrapping_mul(*extent);
        fits
    })
}

/// Returns true if the elements are aligned for their type; PyTorch makes views that are not.
pub(crate) fn is_aligned(tensor: &TensorRef<'_>, align: usize) -> bool {
    let address = tensor.data().addr().wrapping_add(tensor.byte_offset() as usize);
    address.is_multiple_of(align) || tensor.is_empty()
}
