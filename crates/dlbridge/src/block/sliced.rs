//! Turns a tensor into a slice of itself: the same owner with other dims, in the same block if they fit.

use alloc::alloc::{alloc, handle_alloc_error};
use core::ffi::c_void;
use core::ptr::NonNull;

use super::Managed;
use super::header::{Free, Header};
use crate::layout::{self, Dims};
use crate::{Error, Result};

impl Managed {
    /// Describes a slice of the tensor, or another order of its elements. The owner stays the same.
    ///
    /// # Safety
    /// Each index of `dims` leads from `data` and `byte_offset` to an element of the tensor.
    pub(crate) unsafe fn describe_slice(
        mut self,
        dims: &Dims<'_>,
        data: *mut c_void,
        byte_offset: u64,
    ) -> Result<Self> {
        let count = layout::element_count(dims.shape())?;
        let whole = layout::element_count(self.shape())?;
        let is_part = || count < whole || layout::may_overlap(dims.shape(), dims.strides());
        if self.header().check.is_some() && is_part() && !self.passes_check() {
            // A later check would see only the slice, but `try_into_owner` returns the whole owner.
            return Err(Error::InvalidElement { dtype: self.tensor().dtype.into() });
        }
        if (self.header().dims as usize) < 2 * dims.ndim() {
            self = self.with_room(dims.ndim());
        }
        // SAFETY: the data is set below, and fits the dims (the caller); an error drops the block.
        unsafe { self.set_dims(dims.shape(), Some(dims.strides())) }?;
        let tensor = self.tensor_mut();
        (tensor.data, tensor.byte_offset) = (data, byte_offset);
        Ok(self)
    }

    /// The same owner and description in a new block, with room for more dimensions. The dims are not written yet.
    fn with_room(self, ndim: usize) -> Self {
        let (vtable, dims) = (self.header().vtable, self.header().dims as usize);
        let layout = vtable.layout(2 * ndim);
        // SAFETY: the layout contains a header, so its size is not zero.
        let memory = unsafe { alloc(layout) };
        let Some(header) = NonNull::new(memory.cast::<Header>()) else {
            handle_alloc_error(layout)
        };
        let free = Free { header: self.into_raw().cast(), layout: vtable.layout(dims) };
        // SAFETY: both blocks begin with a fixed part of this layout (`VTable::layout`); the owner
        // in the old one is not used again, because that block is freed without dropping it. The
        // dims are in the new allocation behind the fixed part.
        unsafe {
            let fixed = vtable.layout.size();
            free.header.cast::<u8>().copy_to_nonoverlapping(header.cast(), fixed);
            let shape = memory.add(fixed).cast::<i64>();
            (*header.as_ptr()).dims = 2 * ndim as u16;
            let tensor = &mut (*header.as_ptr()).managed.dl_tensor;
            (tensor.ndim, tensor.shape, tensor.strides) = (0, shape, shape.add(ndim));
        }
        drop(free);
        Self(header.cast())
    }
}
