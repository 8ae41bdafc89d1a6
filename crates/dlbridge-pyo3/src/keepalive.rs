//! Tensors that keep the memory of others alive.
//!
//! - **Within.** The elements lie within those of a dlbridge tensor that is alive. Its memory stays valid as long as
//!   its owner lives, whatever happens to the object.

use std::ops::Range;

use dlbridge::{Access, ArcTensor, Tensor, TensorRef};

/// The tensor that owns the memory of a tensor: follows the sources to the first one.
pub fn root(tensor: &ArcTensor) -> ArcTensor {
    let mut tensor = tensor;
    while let Some(source) = inner(tensor) {
        tensor = source;
    }
    tensor.clone()
}

/// The source that a tensor shares its memory with. `None` for an exclusive tensor, which nothing else may use.
pub(crate) fn inner(tensor: &Tensor) -> Option<&ArcTensor> {
    if tensor.access() == Access::Exclusive {
        return None;
    }
    // SAFETY: this reads the type of the owner, and accesses no element through it.
    unsafe { tensor.owner_ref::<ArcTensor>() }
}

/// Returns true if bytes lie within those of a tensor's elements (Within). An empty range does.
pub fn is_within(bytes: &Range<usize>, tensor: &Tensor) -> bool {
    if bytes.is_empty() {
        return true;
    }
    let available = address_range(&TensorRef::from(tensor));
    tensor.device().device_type().is_host_accessible()
        && available.start <= bytes.start
        && bytes.end <= available.end
}

/// The addresses of the bytes of a tensor's elements.
pub(crate) fn address_range(tensor: &TensorRef<'_>) -> Range<usize> {
    let (bounds, first) = (tensor.byte_bounds(), tensor.data().addr());
    first.wrapping_add_signed(bounds.start)..first.wrapping_add_signed(bounds.end)
}
