//! Tensors as memory that burn owns.

use std::mem::MaybeUninit;
use std::slice;

use burn_std::{AccessError, AccessPolicy, AllocationController, AllocationProperty, Bytes};
use dlbridge::{Access, Tensor, TensorRef};

/// A tensor on the CPU whose elements cover all bytes from its lowest to its highest.
///
/// - **Held.** All these bytes belong to elements of the tensor, and no other code writes them: the tensor is
///   exclusive and this is its only holder, or it is immutable.
struct Held {
    tensor: Tensor,
    lowest: isize,
    len: usize,
    align: usize,
}

/// The bytes of a tensor for burn, from the lowest to the highest.
///
/// # Safety
/// The tensor is on the CPU and has elements without gaps, and [`Tensor::check_stable`] accepts it.
pub(crate) unsafe fn bytes(tensor: Tensor) -> Bytes {
    let bounds = TensorRef::from(&tensor).byte_bounds();
    let (lowest, len) = (bounds.start, bounds.len());
    let held = Held { lowest, len, align: tensor.dtype().itemsize(), tensor };
    const { assert_threads::<Held>() };
    // SAFETY: elements are initialised, and all bytes belong to elements (Held).
    unsafe { Bytes::from_controller(Box::new(held), len) }
}

/// The assumptions that burn makes about memory.
const fn assert_threads<T: Send + Sync + 'static>() {}

impl Held {
    fn first(&self) -> *mut MaybeUninit<u8> {
        self.tensor.data().wrapping_byte_offset(self.lowest).cast()
    }
}

impl AllocationController for Held {
    fn alloc_align(&self) -> usize {
        self.align
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Other
    }

    fn capacity(&self) -> usize {
        self.len
    }

    fn memory(&self, _: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
        // SAFETY: Held; this holder writes the bytes only while the tensor is borrowed mutably.
        Ok(unsafe { slice::from_raw_parts(self.first(), self.len) })
    }

    unsafe fn memory_mut(
        &mut self,
        policy: AccessPolicy,
    ) -> Result<&mut [MaybeUninit<u8>], AccessError> {
        if self.tensor.access() != Access::Exclusive {
            if !policy.copy_allowed() {
                return Err(AccessError::WouldCopy);
            }
            // SAFETY: Held; this holder writes the bytes only while the tensor is borrowed mutably.
            let bytes = unsafe { slice::from_raw_parts(self.first().cast::<u8>(), self.len) };
            let tensor = TensorRef::from(bytes).to_copy();
            let tensor = tensor.map_err(|error| AccessError::Read(error.to_string()))?;
            *self = Self { tensor, lowest: 0, ..*self };
        }
        // SAFETY: Held; the tensor is exclusive and borrowed mutably.
        Ok(unsafe { slice::from_raw_parts_mut(self.first(), self.len) })
    }
}
