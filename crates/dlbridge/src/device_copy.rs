//! What copies between the host and a device share, in the crates of devices.

use alloc::vec::Vec;

use crate::{Access, DataType, Error, RawParts, Result, Tensor, TensorRef};

/// Calls `copy` with the elements in C order: those of the source, or a copy of them.
pub fn in_c_order<R, E: From<Error>>(
    source: TensorRef<'_>,
    copy: impl FnOnce(TensorRef<'_>) -> core::result::Result<R, E>,
) -> core::result::Result<R, E> {
    match source.is_c_contiguous() {
        true => copy(source),
        false => copy(TensorRef::from(&source.to_copy()?)),
    }
}

/// Returns the extents of a tensor.
pub fn extents(tensor: &TensorRef<'_>) -> Vec<usize> {
    tensor.shape().iter().map(|&extent| extent as usize).collect()
}

/// Makes a host tensor in C order of the fetched bytes of `source`, a tensor on a device.
///
/// `start` is the position in `fetched` of the lowest byte of an element of `source`. All bytes up to the highest must be
/// there, or this panics.
pub fn of_fetched(mut fetched: Tensor, start: usize, source: &Tensor) -> Result<Tensor> {
    let bounds = TensorRef::from(source).byte_bounds();
    let bytes = fetched.view_mut::<u8>()?.as_mut_slice().map_or(0, |bytes| bytes.len());
    assert!(start.checked_add(bounds.len()).is_some_and(|end| end <= bytes), "missing bytes");
    let first = fetched.data().wrapping_byte_add(start).wrapping_byte_offset(-bounds.start);
    let parts = RawParts {
        access: Access::Exclusive,
        subbyte_padded: source.is_subbyte_padded(),
        ..RawParts::new(first, source.dtype())
    };
    // SAFETY: `fetched` has all bytes from the lowest to the highest element, as just checked; `view_mut` succeeded, so
    // it is exclusive and on the host; bytes may have any values.
    let host =
        unsafe { Tensor::from_raw_parts(fetched, parts, source.shape(), Some(source.strides())) }?;
    match host.is_c_contiguous() {
        true => Ok(host),
        false => host.to_copy(),
    }
}

/// Calls `fetch` with new memory for the bytes from the lowest to the highest element of `source`, a tensor on a device,
/// and makes a host tensor in C order of them. `fetch` is not called for a tensor without elements.
pub fn to_host<E: From<Error>>(
    source: &Tensor,
    fetch: impl FnOnce(&mut [u8]) -> core::result::Result<(), E>,
) -> core::result::Result<Tensor, E> {
    let len = TensorRef::from(source).byte_bounds().len();
    let mut fetched = Tensor::zeroed(DataType::UINT8, [len])?;
    if len != 0 {
        let mut bytes = fetched.view_mut::<u8>()?;
        fetch(bytes.as_mut_slice().expect("new memory is contiguous"))?;
    }
    Ok(of_fetched(fetched, 0, source)?)
}
