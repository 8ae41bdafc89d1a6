//! Tensors over the bytes of another tensor, as elements of another dtype.

use dlbridge::{Access, ArcTensor, DataType, Error, RawParts, Result, Tensor};

use crate::keepalive::root;

/// The same elements under a dtype of the same size.
pub(crate) fn with_dtype(tensor: &ArcTensor, read_only: bool, dtype: DataType) -> Result<Tensor> {
    let (found, padded) = (tensor.dtype(), tensor.is_subbyte_padded());
    if dtype.is_subbyte() || dtype.itemsize() != found.itemsize() || (found.is_subbyte() && !padded)
    {
        return Err(Error::DataType { expected: found, found: dtype });
    }
    check_on_cpu(tensor)?;
    let parts = parts(tensor, read_only, dtype, false);
    let (shape, strides) = (tensor.shape(), tensor.strides());
    // SAFETY: Data of a tensor that the owner keeps alive; each element has the same size and place under the new
    // dtype. The program promises that no code writes while a view is alive (see the crate documentation).
    unsafe { Tensor::from_raw_parts(root(tensor), parts, shape, Some(strides)) }
}

/// All bytes of a tensor in C order as elements of another dtype and shape.
pub(crate) fn with_shape(
    tensor: &ArcTensor,
    read_only: bool,
    (dtype, padded): (DataType, bool),
    shape: &[usize],
) -> Result<Tensor> {
    dtype.check()?;
    check_on_cpu(tensor)?;
    let padded = padded && dtype.is_subbyte();
    if !tensor.is_c_contiguous() {
        return Err(Error::NotContiguous);
    }
    let elements = match shape.contains(&0) {
        true => Some(0),
        false => shape.iter().try_fold(1_usize, |n, &extent| n.checked_mul(extent)),
    };
    let needed = byte_count(dtype, elements.ok_or(Error::TooLarge)?, padded);
    let available = byte_count(tensor.dtype(), tensor.len(), tensor.is_subbyte_padded());
    if needed != available {
        let available = usize::try_from(available).map_err(|_| Error::TooLarge)?;
        return Err(Error::ByteCount { needed, available });
    }
    let parts = parts(tensor, read_only, dtype, padded);
    // SAFETY: Data of a tensor that the owner keeps alive: its bytes are contiguous, and the new elements are exactly
    // these. The program promises that no code writes while a view is alive (see the crate documentation).
    unsafe { Tensor::from_raw_parts(root(tensor), parts, shape, None::<&[i64]>) }
}

/// The size in bytes of contiguous elements.
pub(crate) fn byte_count(dtype: DataType, elements: usize, padded: bool) -> u128 {
    match dtype.is_subbyte() && !padded {
        true => (elements as u128 * u128::from(dtype.element_bits())).div_ceil(8),
        false => elements as u128 * dtype.itemsize() as u128,
    }
}

fn parts(tensor: &Tensor, read_only: bool, dtype: DataType, subbyte_padded: bool) -> RawParts {
    RawParts {
        device: tensor.device(),
        access: if read_only { Access::ReadOnly } else { Access::Shared },
        subbyte_padded,
        ..RawParts::new(tensor.data(), dtype)
    }
}

fn check_on_cpu(tensor: &Tensor) -> Result<()> {
    let device = tensor.device();
    match device.device_type().is_host_accessible() {
        true => Ok(()),
        false => Err(Error::NotHostAccessible { device }),
    }
}
