//! Tensors of candle whose storage stays unwritten.

use core::mem;

use candle_core::{Layout, Storage, StorageRef, Tensor};
use dlbridge::{Access, RawParts};

use crate::dtype::Elements;
use crate::{Error, Result};

/// A tensor of candle with a read lock on its storage.
pub(crate) struct Locked {
    /// Declared before the tensor, so that it is released first.
    guard: StorageRef<'static>,
    tensor: Tensor,
}

impl Locked {
    pub(crate) fn new(tensor: Tensor) -> Self {
        let (guard, _) = tensor.storage_and_layout();
        // SAFETY: the lock is on the heap, where the tensor keeps it alive. The guard is dropped before the tensor,
        // and no function returns the guard or its lifetime.
        let guard = unsafe { mem::transmute::<StorageRef<'_>, StorageRef<'static>>(guard) };
        Self { guard, tensor }
    }

    /// Describes the elements, after checking that all are within the storage.
    pub(crate) fn parts(&self) -> Result<RawParts> {
        let elements = match &*self.guard {
            Storage::Cpu(storage) => Elements::of(storage)?,
            other => return Err(Error::NotOnCpu { location: other.device().location() }),
        };
        let layout = self.tensor.layout();
        check_bounds(layout, elements.len)?;
        let offset = layout.start_offset().wrapping_mul(elements.dtype.itemsize());
        let first = elements.first.wrapping_byte_add(offset);
        Ok(RawParts { access: Access::ReadOnly, ..RawParts::new(first, elements.dtype) })
    }

    pub(crate) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Releases the lock.
    pub(crate) fn into_tensor(self) -> Tensor {
        self.tensor
    }
}

/// Checks that all indices lead to elements of a storage: `Tensor::from_storage` takes any shape.
fn check_bounds(layout: &Layout, owner: usize) -> dlbridge::Result<()> {
    let axes = || layout.dims().iter().zip(layout.stride());
    if layout.dims().contains(&0) {
        return Ok(());
    }
    let last = axes().try_fold(layout.start_offset(), |last, (&extent, &stride)| {
        last.checked_add((extent - 1).checked_mul(stride)?)
    });
    let number = |position: usize| i64::try_from(position).ok();
    let (Some(lowest), Some(highest)) = (number(layout.start_offset()), last.and_then(number))
    else {
        return Err(dlbridge::Error::TooLarge);
    };
    if highest as usize >= owner {
        return Err(dlbridge::Error::OutOfBounds { lowest, highest, owner });
    }
    Ok(())
}
