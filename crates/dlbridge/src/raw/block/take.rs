//! Taking the owner out of a tensor again.

use alloc::sync::Arc;
use core::slice;

use super::{Block, Free, Managed};
use crate::layout::{self, Dims};
use crate::{DataType, Tensor};

impl Managed {
    /// Moves the owner out and frees the block, if the owner is an `O` and its elements are valid;
    /// or if this is the last handle on a tensor of which that can be said.
    pub(crate) fn try_into_owner<O: 'static>(mut self) -> Result<O, Self> {
        if self.gives::<O>() {
            // SAFETY: the type was compared.
            return Ok(unsafe { self.into_owner() });
        }
        if !self.sole_source().is_some_and(|source| source.managed().gives::<O>()) {
            return Err(self);
        }
        // SAFETY: a source is an `Arc<Tensor>`, by comparison of types.
        let source: Arc<Tensor> = unsafe { self.into_owner() };
        let source = Arc::into_inner(source).expect("no other handle, strong or weak");
        // SAFETY: the type was compared.
        Ok(unsafe { source.into_managed().into_owner() })
    }

    /// The tensor that this one was lent from, if nobody else has it any more.
    pub(super) fn sole_source(&mut self) -> Option<&mut Tensor> {
        if !self.owner_is::<Arc<Tensor>>() {
            return None;
        }
        // SAFETY: the type was compared.
        Arc::get_mut(unsafe { self.owner_mut::<Arc<Tensor>>() })
    }

    /// Whether the owner can be handed out as an `O`.
    fn gives<O: 'static>(&self) -> bool {
        self.owner_is::<O>() && self.passes_check()
    }

    /// # Safety
    /// The owner is an `O`.
    unsafe fn into_owner<O: 'static>(self) -> O {
        let header = self.header();
        let layout = header.vtable.layout(header.dims as usize);
        let block = self.into_raw();
        let _free = Free { header: block.cast(), layout };
        // SAFETY: an `O` by contract; initialised (Block) and read once, because the block is freed
        // without dropping it.
        unsafe { (*block.cast::<Block<O>>().as_ptr()).owner.assume_init_read() }
    }

    /// Whether the elements are values of the owner's element type. Whoever wrote them may have
    /// known the dtype alone.
    pub(super) fn passes_check(&self) -> bool {
        let Some(check) = self.header().check else { return true };
        let (tensor, itemsize) = (self.tensor(), DataType::from(self.tensor().dtype).itemsize());
        let first = tensor.data.cast::<u8>().cast_const();
        layout::all_reached(&Dims::borrowed(self.shape(), self.strides()), |offset| {
            // SAFETY: Data and Calm; a check is set for owners of Rust memory only, which is the
            // host's, and whose elements have no padding.
            check(unsafe {
                slice::from_raw_parts(first.offset(offset * itemsize as isize), itemsize)
            })
        })
    }
}
