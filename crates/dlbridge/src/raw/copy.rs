//! Copying elements from any layout to any other.

use alloc::vec::Vec;
use core::slice;

use super::aligned::AlignedBytes;
use super::block::Managed;
use super::parts::{Access, RawParts};
use super::strided::copy_strided;
use super::subbyte;
use super::tensor_ref::TensorRef;
use super::tensor_ref_mut::TensorRefMut;
use super::view::TensorView;
use crate::layout::{self, Dims, Offsets};
use crate::{Error, Result};

/// A copy in C order in memory of our own.
pub(crate) fn to_copy(source: &TensorRef<'_>) -> Result<Managed> {
    source.check_host_accessible()?;
    let (shape, strides, dtype) = (source.shape(), source.strides(), source.dtype());
    let packed = source.is_subbyte_packed();
    if packed && !layout::is_c_contiguous(shape, strides) {
        return subbyte::to_copy(source, false);
    }
    let bytes = layout::byte_count(source.len(), dtype, !packed);
    let bytes = usize::try_from(bytes).map_err(|_| Error::TooLarge)?;
    let mut memory = AlignedBytes::new(bytes)?;
    let (from, to) = (source.data().cast::<u8>().cast_const(), memory.as_mut_ptr());
    let mut copy = Managed::new(memory, shape.len());
    let elements = copy.set_dims(shape, None::<&[i64]>)?;
    if packed {
        // SAFETY: Ref: `bytes` is the byte extent of a contiguous packed tensor. The target was
        // allocated with that size just now. Without elements there are no bytes.
        unsafe { from.copy_to_nonoverlapping(to, bytes) };
    } else if elements != 0 {
        // SAFETY: Ref; the target has room for every element in C order, and is new.
        unsafe { copy_strided(from, strides, to, copy.strides(), shape, dtype.itemsize()) };
    }
    let subbyte_padded = source.is_subbyte_padded();
    let parts =
        RawParts { access: Access::Exclusive, subbyte_padded, ..RawParts::new(to.cast(), dtype) };
    // SAFETY: memory of our own, written in full above, which nobody else knows and the owner frees.
    unsafe { copy.describe(&parts, elements) }?;
    Ok(copy)
}

/// Writes all elements of one tensor into another.
pub(super) fn copy_into(source: &TensorRef<'_>, target: &TensorRefMut<'_>) -> Result<()> {
    let target = target.as_tensor_ref();
    let (found, expected) = (source.dtype(), target.dtype());
    if found != expected {
        return Err(Error::DataType { expected, found });
    }
    check_same_shape(target.dims(), source.dims())?;
    source.check_host_accessible()?;
    target.check_host_accessible()?;
    let (from, to) = (source.data().cast::<u8>().cast_const(), target.data().cast::<u8>());
    let (shape, dtype) = (source.shape(), source.dtype());
    if source.is_subbyte_packed() || target.is_subbyte_packed() {
        let bits = source.len() as u128 * u128::from(dtype.element_bits());
        let whole = |tensor: &TensorRef<'_>| {
            tensor.is_subbyte_packed() && layout::is_c_contiguous(shape, tensor.strides())
        };
        // The last byte may hold elements of somebody else.
        if !whole(source) || !whole(&target) || !bits.is_multiple_of(8) {
            return Err(Error::SubbytePacked { dtype });
        }
        // SAFETY: Ref: the byte extent of both, which are contiguous and packed.
        unsafe { from.copy_to_nonoverlapping(to, (bits / 8) as usize) };
    } else if !source.is_empty() {
        // SAFETY: Ref of both; the target is borrowed mutably, so the two have no byte in common.
        unsafe {
            let (from_strides, to_strides) = (source.strides(), target.strides());
            copy_strided(from, from_strides, to, to_strides, shape, dtype.itemsize());
        }
    }
    Ok(())
}

fn check_same_shape(expected: &Dims<'_>, found: &Dims<'_>) -> Result<()> {
    let (expected, found) = (expected.shape(), found.shape());
    if expected.len() != found.len() {
        return Err(Error::Ndim { expected: expected.len(), found: found.len() });
    }
    let differs = (0..expected.len()).find(|&axis| expected[axis] != found[axis]);
    differs.map_or(Ok(()), |axis| {
        let (expected, found) = (expected[axis] as usize, found[axis] as usize);
        Err(Error::Extent { axis, expected, found })
    })
}

/// Reverses the bytes of each number.
pub(super) fn swap_bytes(tensor: &TensorRefMut<'_>) -> Result<()> {
    let tensor = tensor.as_tensor_ref();
    tensor.check_host_accessible()?;
    let dtype = tensor.dtype();
    let number = dtype.number_size().ok_or(Error::NoByteOrder { dtype })?;
    if number == 1 || tensor.is_empty() {
        return Ok(());
    }
    let (first, itemsize) = (tensor.data().cast::<u8>(), dtype.itemsize());
    // SAFETY: Ref: elements of a mutable tensor, whose bytes nobody else reads or writes.
    let bytes = |offset: isize, elements: usize| unsafe {
        let first = first.offset(offset * itemsize as isize);
        slice::from_raw_parts_mut(first, elements * itemsize)
    };
    if tensor.is_c_contiguous() {
        reverse_each(bytes(0, tensor.len()), number);
    } else {
        Offsets::new(tensor.dims()).for_each(|offset| reverse_each(bytes(offset, 1), number));
    }
    Ok(())
}

/// Reverses each `number` bytes; the usual numbers in one instruction.
fn reverse_each(bytes: &mut [u8], number: usize) {
    match number {
        2 => bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|n| n.reverse()),
        4 => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|n| n.reverse()),
        8 => bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|n| n.reverse()),
        _ => bytes.chunks_exact_mut(number).for_each(<[u8]>::reverse),
    }
}

/// The elements of a view in the order of their indices.
pub(crate) fn to_vec<T: Copy>(view: &TensorView<'_, T>) -> Vec<T> {
    let len = view.len();
    let mut elements: Vec<T> = Vec::with_capacity(len);
    if len != 0 {
        let (shape, mut to_strides) = (view.shape(), alloc::vec![0; view.ndim()]);
        layout::c_strides(shape, |axis, stride| to_strides[axis] = stride);
        let (from, to) = (view.as_ptr().cast(), elements.as_mut_ptr());
        // SAFETY: View; the vector has room for all elements in C order, which are written here.
        unsafe {
            copy_strided(from, view.strides(), to.cast(), &to_strides, shape, size_of::<T>());
            elements.set_len(len);
        }
    }
    elements
}
