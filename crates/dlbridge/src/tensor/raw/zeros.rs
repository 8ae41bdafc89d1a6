//! New tensors of zeros.

use crate::block::{Managed, RawParts, Undescribed};
use crate::memory::AlignedBytes;
use crate::{Access, DataType, Error, MAX_NDIM, Result, layout};

/// A tensor in C order whose bytes are all zero, at a multiple of `alignment`, a power of two. Elements narrower than a
/// byte are `padded` to whole bytes, or packed.
pub(crate) fn zeroed(
    dtype: DataType,
    padded: bool,
    shape: &[usize],
    alignment: usize,
) -> Result<Managed> {
    if shape.len() > MAX_NDIM {
        return Err(Error::InvalidNdim { ndim: shape.len() as i64 });
    }
    dtype.check()?;
    let elements = shape.iter().try_fold(1_usize, |n, &extent| n.checked_mul(extent));
    // A shape with an extent of zero has no elements, even if the product of the others overflows.
    let elements = if shape.contains(&0) { Some(0) } else { elements };
    let elements = elements.ok_or(Error::TooLarge)?;
    let bytes = layout::byte_count(elements, dtype, padded);
    let bytes = usize::try_from(bytes).map_err(|_| Error::TooLarge)?;
    let mut memory = AlignedBytes::zeroed(bytes, alignment, false)?;
    let data = memory.as_mut_ptr();
    let mut block = Undescribed::new(memory, shape.len());
    let elements = block.set_dims(shape, None::<&[i64]>)?;
    let parts = RawParts {
        access: Access::Exclusive,
        subbyte_padded: padded,
        ..RawParts::new(data.cast(), dtype)
    };
    // SAFETY: new memory with room for all elements, initialised; no other code has its address, and the owner frees
    // it.
    unsafe { block.describe(&parts, elements, None) }
}
