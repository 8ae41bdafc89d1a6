//! Returns the owner of a tensor.

use core::slice;

use super::Managed;
use super::header::{Block, Free};
use crate::DataType;
use crate::layout::{self, Dims};

impl Managed {
    /// True if the owner is an `O` whose elements are all valid.
    pub(crate) fn gives<O: 'static>(&self) -> bool {
        self.owner_is::<O>() && self.passes_check()
    }

    /// Moves the owner out and frees the block.
    ///
    /// # Safety
    /// The owner is an `O`.
    pub(crate) unsafe fn into_owner<O: 'static>(self) -> O {
        let header = self.header();
        let layout = header.vtable.layout(header.dims as usize);
        let block = self.into_raw();
        let _free = Free { header: block.cast(), layout };
        // SAFETY: the caller guarantees that the owner is an `O`. It is initialised (Block), and read once, because the
        // block is freed without dropping it.
        unsafe { (*block.cast::<Block<O>>().as_ptr()).owner.assume_init_read() }
    }

    /// True if the elements are valid values of the owner's element type. Code that wrote them may have known only the
    /// dtype.
    pub(super) fn passes_check(&self) -> bool {
        let Some(check) = self.header().check else { return true };
        let (tensor, itemsize) = (self.tensor(), DataType::from(self.tensor().dtype).itemsize());
        let first = tensor.data.cast::<u8>().cast_const();
        layout::all_reached(&Dims::borrowed(self.shape(), self.strides()), |offset| {
            // SAFETY: Data and Calm; only owners of Rust memory have a check, so the memory is the host's, and the
            // elements have no padding.
            check(unsafe {
                slice::from_raw_parts(first.offset(offset * itemsize as isize), itemsize)
            })
        })
    }
}
