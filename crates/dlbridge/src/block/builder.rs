//! A block that holds its owner, but no description yet.

use alloc::alloc::{alloc, handle_alloc_error};
#[cfg(feature = "ndarray")]
use core::marker::PhantomData;
use core::mem;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::AtomicU32;

use dlbridge_sys::{DLManagedTensorVersioned, DLPackVersion, DLTensor};

use super::Managed;
use super::delete::DELETER;
use super::header::{Block, Check, Free, Header, brand};
use crate::block::{Marks, RawParts};
use crate::layout::{self, ElementExtent, Measure};
use crate::{Error, MAX_NDIM, Result};

/// An allocated block with an initialised owner and no header. Dropping it drops the owner and frees the block.
///
/// The owner moves into the block first, because its memory may move with it; the header is then written once.
pub(crate) struct Builder<O: Send + 'static> {
    block: NonNull<Block<O>>,
    ndim: usize,
}

impl<O: Send + 'static> Builder<O> {
    /// Moves an owner into a new block with room for `ndim` dimensions.
    #[inline]
    pub(crate) fn new(owner: O, ndim: usize) -> Self {
        assert!(ndim <= MAX_NDIM, "a tensor has at most MAX_NDIM dimensions");
        let layout = Block::<O>::VTABLE.layout(2 * ndim);
        // SAFETY: the layout contains a header, so its size is not zero.
        let memory = unsafe { alloc(layout) };
        let Some(block) = NonNull::new(memory.cast::<Block<O>>()) else {
            handle_alloc_error(layout)
        };
        // SAFETY: allocated above with the layout of a `Block<O>`, and no other code has it.
        unsafe { (&raw mut (*block.as_ptr()).owner).write(MaybeUninit::new(owner)) };
        Self { block, ndim }
    }

    /// The owner, in its place in the block.
    #[inline]
    pub(crate) fn owner_mut(&mut self) -> &mut O {
        // SAFETY: initialised, and `&mut self` is the only access.
        unsafe { (*self.block.as_ptr()).owner.assume_init_mut() }
    }

    /// The address of the extents.
    #[inline]
    fn extents(&self) -> *mut i64 {
        // SAFETY: the dims are in the allocation behind the fixed part (`VTable::layout`).
        unsafe { self.block.add(1).as_ptr().cast() }
    }

    /// Writes a shape and the strides of C order into the block. Returns the number of elements.
    ///
    /// The block must have been made for this number of dimensions.
    #[inline]
    pub(crate) fn set_c_order(&mut self, shape: &[usize]) -> Result<usize> {
        assert!(shape.len() == self.ndim, "the block was made for other dimensions");
        let (extents, ndim) = (self.extents(), self.ndim);
        // The product of the extents except zeros: the stride of the next axis.
        let (mut product, mut elements) = (1_usize, 1_usize);
        for (axis, &extent) in shape.iter().enumerate().rev() {
            // SAFETY: `axis < ndim`, and the block has room for `ndim` extents and strides.
            unsafe {
                extents.add(axis).write(extent as i64);
                extents.add(ndim + axis).write(product as i64);
            }
            // Cannot wrap: it is zero or at most the product, which is checked.
            elements = elements.wrapping_mul(extent);
            product = product.checked_mul(extent.max(1)).ok_or(Error::TooLarge)?;
        }
        // Every extent is zero or a factor of the product, so the casts to i64 above lost nothing.
        isize::try_from(product).map_err(|_| Error::TooLarge)?;
        Ok(elements)
    }

    /// Writes the extent and the stride of each axis into the block, and measures them.
    ///
    /// The block must have been made for this number of dimensions.
    #[inline]
    pub(crate) fn set_axes(
        &mut self,
        axes: impl ExactSizeIterator<Item = (i64, i64)>,
    ) -> Result<Measure> {
        assert!(axes.len() == self.ndim, "the block was made for other dimensions");
        let (extents, ndim, mut count) = (self.extents(), self.ndim, 0);
        // The iterator may yield more axes than its `len`; the zip stops at the room in the block.
        let measure = layout::measure((0..ndim).zip(axes).map(|(axis, (extent, stride))| {
            count += 1;
            // SAFETY: `axis < ndim`, and the block has room for `ndim` extents and strides.
            unsafe {
                extents.add(axis).write(extent);
                extents.add(ndim + axis).write(stride);
            }
            (extent, stride)
        }))?;
        assert!(count == ndim, "an iterator yields another number of items than its length");
        Ok(measure)
    }

    /// Copies the extents and strides of another tensor into the block.
    ///
    /// The block must have been made for this number of dimensions.
    #[inline]
    pub(crate) fn copy_dims(&mut self, shape: &[i64], strides: &[i64]) {
        let (extents, ndim) = (self.extents(), self.ndim);
        assert!(
            shape.len() == ndim && strides.len() == ndim,
            "the block was made for other dimensions"
        );
        for (axis, (&extent, &stride)) in shape.iter().zip(strides).enumerate() {
            // SAFETY: `axis < ndim`, and the block has room for `ndim` extents and strides.
            unsafe {
                extents.add(axis).write(extent);
                extents.add(ndim + axis).write(stride);
            }
        }
    }

    /// Writes extents into the block, and the strides of C order.
    ///
    /// The block must have been made for this number of dimensions.
    pub(crate) fn set_shape(
        &mut self,
        shape: impl ExactSizeIterator<Item = i64>,
    ) -> Result<Measure> {
        let Measure { count, .. } = self.set_axes(shape.map(|extent| (extent, 0)))?;
        // SAFETY: `set_axes` just wrote `ndim` extents, and no other code has their address.
        let extents = unsafe { slice::from_raw_parts(self.extents(), self.ndim) };
        layout::c_strides(extents, |axis, stride| {
            // SAFETY: `axis < ndim`, and the block has room for `ndim` strides behind the extents.
            unsafe { self.extents().add(self.ndim + axis).write(stride) };
        });
        let highest = count.saturating_sub(1) as i64;
        Ok(Measure { count, extent: Some(ElementExtent { lowest: 0, highest }) })
    }

    /// Checks the layout and the dtype (Layout, Dtype), then describes the data. On addressable devices the byte offset
    /// is folded into the address; the address of a tensor without elements becomes NULL. `flags` are added to those of
    /// the parts.
    ///
    /// # Safety
    /// All axes were written, and the measure is theirs. Data, Calm, Exclusive, Immutable and Send hold for `parts`,
    /// the dims and the owner.
    #[inline]
    pub(crate) unsafe fn describe(
        self,
        parts: &RawParts,
        measure: Measure,
        flags: u64,
    ) -> Result<Managed> {
        parts.dtype.check()?;
        let (data, byte_offset) = match (measure.count, measure.extent) {
            (0, _) => (ptr::null_mut(), 0),
            (_, extent) => parts.locate(extent.ok_or(Error::TooLarge)?)?,
        };
        let description = DLTensor {
            data,
            device: parts.device.into(),
            ndim: self.ndim as i32,
            dtype: parts.dtype.into(),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset,
        };
        let marks = parts.marks();
        // SAFETY: the caller guarantees that the dims were written, and Data, Calm, Exclusive, Immutable and Send for
        // `parts`, which the description repeats; `locate` only adds the byte offset to the address.
        Ok(unsafe {
            self.finish(description, Marks { flags: marks.flags | flags, ..marks }, None, false)
        })
    }

    /// The owner, and the room for its extents and strides.
    #[cfg(feature = "ndarray")]
    #[inline]
    pub(crate) fn owner_and_dims(&mut self) -> (&mut O, DimsOut<'_>) {
        let dims =
            DimsOut { extents: self.extents(), ndim: self.ndim, written: 0, block: PhantomData };
        // The dims are in the block, but not in the owner.
        (self.owner_mut(), dims)
    }

    /// Writes the header: the description with shape and strides, and the data that the deleter and `into_owner` need.
    /// `is_leaf` is true if the owner's drop runs no deleter.
    ///
    /// # Safety
    /// The dims are written, or the description has no dimensions. Data, Calm, Exclusive, Immutable
    /// and Send hold for the description, the dims and the owner.
    #[inline]
    pub(crate) unsafe fn finish(
        self,
        description: DLTensor,
        marks: Marks,
        check: Option<Check>,
        is_leaf: bool,
    ) -> Managed {
        let shape = self.extents();
        // SAFETY: the dims, if any, are within the allocation.
        let strides = unsafe { shape.add(self.ndim) };
        // SAFETY: the caller guarantees everything that `finish` demands for the description, whose dims are those in
        // this block (Dims).
        unsafe {
            self.write_header(DLTensor { shape, strides, ..description }, marks, check, is_leaf)
        }
    }

    /// Writes the header with a description whose dims are elsewhere.
    ///
    /// # Safety
    /// Everything holds for the description that [`finish`](Self::finish) demands; the owner keeps the dims.
    #[inline]
    pub(crate) unsafe fn finish_with_dims(self, description: DLTensor, marks: Marks) -> Managed {
        // SAFETY: the caller guarantees everything that `finish` demands for a description whose dims the owner keeps
        // (Dims).
        unsafe { self.write_header(description, marks, None, false) }
    }

    /// # Safety
    /// That of [`finish`](Self::finish), for a description with its dims.
    #[inline(always)]
    unsafe fn write_header(
        self,
        dl_tensor: DLTensor,
        Marks { flags, immutable }: Marks,
        check: Option<Check>,
        is_leaf: bool,
    ) -> Managed {
        let managed = DLManagedTensorVersioned {
            version: DLPackVersion::CURRENT,
            manager_ctx: brand(),
            deleter: Some(DELETER),
            flags,
            dl_tensor,
        };
        // At most twice MAX_NDIM, which fits.
        let (vtable, dims) = (&Block::<O>::VTABLE, 2 * self.ndim as u16);
        let count = AtomicU32::new(1);
        let header = Header { managed, vtable, count, dims, immutable, is_leaf, check };
        // SAFETY: within the block, which only this handle has.
        unsafe { ptr::write(&raw mut (*self.block.as_ptr()).header, header) };
        Managed(mem::ManuallyDrop::new(self).block.cast())
    }
}

/// The dims of a block, axis by axis.
#[cfg(feature = "ndarray")]
pub(crate) struct DimsOut<'a> {
    extents: *mut i64,
    ndim: usize,
    written: usize,
    block: PhantomData<&'a mut [i64]>,
}

#[cfg(feature = "ndarray")]
impl DimsOut<'_> {
    /// Writes the next axis.
    #[inline]
    pub(crate) fn push(&mut self, extent: i64, stride: i64) {
        assert!(self.written < self.ndim, "the block was made for fewer dimensions");
        // SAFETY: the block has room for `ndim` extents and `ndim` strides, and is borrowed for `'a`.
        unsafe {
            self.extents.add(self.written).write(extent);
            self.extents.add(self.ndim + self.written).write(stride);
        }
        self.written += 1;
    }

    /// True if every axis was written.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.written == self.ndim
    }
}

impl<O: Send + 'static> Drop for Builder<O> {
    fn drop(&mut self) {
        let layout = Block::<O>::VTABLE.layout(2 * self.ndim);
        let _free = Free { header: self.block.cast(), layout };
        // SAFETY: initialised, and not used again.
        unsafe { (*self.block.as_ptr()).owner.assume_init_drop() };
    }
}
