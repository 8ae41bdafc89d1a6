//! Strides in bytes, and in elements.

use dlbridge::Tensor;

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
