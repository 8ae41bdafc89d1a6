//! Copying elements out of any layout into adjacent memory.

use super::aligned::AlignedBytes;
use super::block::Managed;
use super::parts::{Access, RawParts};
use crate::layout::{self, Offsets};
use crate::{DataType, Device, Error, Result};

/// A copy in C order in memory of our own.
pub(crate) fn to_copy(source: &Managed) -> Result<Managed> {
    let tensor = source.tensor();
    let (dtype, device): (DataType, Device) = (tensor.dtype.into(), tensor.device.into());
    if !device.device_type().is_host_accessible() {
        return Err(Error::NotHostAccessible { device });
    }
    let (shape, strides) = (source.shape(), source.strides());
    let elements = layout::element_count(shape)?;
    let subbyte_padded = Access::subbyte_padded(source.flags());
    let packed = dtype.is_subbyte() && !subbyte_padded;
    if packed && !layout::is_c_contiguous(shape, strides) {
        return Err(Error::NotContiguous);
    }
    let bytes = layout::byte_count(elements, dtype, subbyte_padded);
    let bytes = usize::try_from(bytes).map_err(|_| Error::TooLarge)?;
    let mut memory = AlignedBytes::new(bytes)?;
    let (from, to) = (tensor.data.cast::<u8>().cast_const(), memory.as_mut_ptr());
    if packed {
        // SAFETY: Data: `bytes` is the byte extent of a contiguous packed tensor; Calm. The target
        // was allocated with that size just now. Without elements there are no bytes.
        unsafe { from.copy_to_nonoverlapping(to, bytes) };
    } else if elements != 0 {
        // SAFETY: Data and Calm; the target has room for every element.
        unsafe { copy_strided(from, to, shape, strides, dtype.itemsize()) };
    }
    let mut copy = Managed::new(memory, shape.len());
    let elements = copy.set_dims(shape, None::<&[i64]>)?;
    let data = to.cast();
    let parts =
        RawParts { access: Access::Exclusive, subbyte_padded, ..RawParts::new(data, dtype) };
    // SAFETY: memory of our own, written in full above, which nobody else knows and the owner frees.
    unsafe { copy.describe(&parts, elements) }?;
    Ok(copy)
}

/// Copies elements of `itemsize` bytes, in the order of their indices, into adjacent memory. What
/// is adjacent in the source too is copied in one run.
///
/// # Safety
/// There are elements. `from` is valid for reads of the layout's byte extent, `to` for writes of
/// all elements; the two do not overlap.
unsafe fn copy_strided(
    from: *const u8,
    mut to: *mut u8,
    shape: &[i64],
    strides: &[i64],
    itemsize: usize,
) {
    // The last axes that are contiguous among themselves make up one run.
    let outer = (0..=shape.len())
        .find(|&axis| layout::is_c_contiguous(&shape[axis..], &strides[axis..]))
        .unwrap_or(shape.len());
    let run = itemsize * shape[outer..].iter().product::<i64>() as usize;
    for offset in Offsets::new(&shape[..outer], &strides[..outer]) {
        // SAFETY: `offset` elements from the first is an element of the layout, followed by the
        // rest of its run; `to` has advanced by the runs before this one.
        unsafe {
            from.offset(offset * itemsize as isize).copy_to_nonoverlapping(to, run);
            to = to.add(run);
        }
    }
}
