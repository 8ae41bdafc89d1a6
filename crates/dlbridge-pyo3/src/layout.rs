//! Where the elements of a tensor lie: strides in bytes and in elements, addresses, and the tensor that owns the memory.
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

/// An extent that no tensor has: marks an axis that cannot be described, so that the one check of a layout refuses
/// it. A second exit would keep the compiler from writing the tensor once.
pub const NO_EXTENT: i64 = -1;

/// The extent and the stride of an axis, for elements of `1 << shift` bytes; [`NO_EXTENT`] if the byte stride is not
/// a multiple of the element size.
#[inline(always)]
pub(crate) fn in_elements(extent: isize, byte_stride: isize, shift: u32) -> (i64, i64) {
    let whole = byte_stride >> shift << shift == byte_stride;
    (if whole { extent as i64 } else { NO_EXTENT }, (byte_stride >> shift) as i64)
}

/// Strides in bytes, of a tensor whose elements are whole bytes.
pub fn byte_strides(tensor: &Tensor) -> Vec<isize> {
    let itemsize = tensor.dtype().itemsize() as isize;
    // Layout: the byte extent fits; the stride of a dimension of extent 1 may be anything.
    tensor.strides().iter().map(|&stride| (stride as isize).wrapping_mul(itemsize)).collect()
}
