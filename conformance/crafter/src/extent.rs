//! Computes the byte range of a tensor's elements, which a `Held` may read and write.

use std::ffi::c_void;
use std::ops::Range;

use dlbridge_sys::{DLDeviceType, DLTensor};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Devices whose memory the CPU can read: the CPU, pinned memory of CUDA and ROCm, managed memory of CUDA.
const HOST: [DLDeviceType; 4] =
    [DLDeviceType(1), DLDeviceType(3), DLDeviceType(11), DLDeviceType(13)];

/// The flag of a struct that pads each sub-byte element to a byte.
const SUBBYTE_PADDED: u64 = 4;

/// The address `offset` bytes after the first element. ValueError if `count` bytes cannot be there.
pub(crate) fn place(
    data: *mut c_void,
    byte_offset: u64,
    offset: isize,
    count: usize,
) -> PyResult<*mut u8> {
    let distance = isize::try_from(byte_offset).ok().and_then(|begin| begin.checked_add(offset));
    let distance = distance.ok_or_else(|| {
        PyValueError::new_err(format!("byte_offset {byte_offset} and {offset} are too far"))
    })?;
    let place = data.cast::<u8>().wrapping_offset(distance);
    let is_outside = data.is_null() || place.addr().checked_add(count).is_none();
    match count > 0 && is_outside {
        true => Err(PyValueError::new_err(format!(
            "data is {data:?}, where {count} bytes at offset {distance} cannot be"
        ))),
        false => Ok(place),
    }
}

/// Refuses bytes outside of a range. Offset and range count from the first element.
pub(crate) fn check(range: &Range<i128>, offset: isize, count: usize) -> PyResult<()> {
    let (begin, end) = (offset as i128, offset as i128 + count as i128);
    match count == 0 || (range.start <= begin && end <= range.end) {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!(
            "bytes {begin} to {end} are outside of the tensor, whose memory is bytes {} to {}",
            range.start, range.end
        ))),
    }
}

/// The byte range of the elements of a tensor in host memory, counted from the first element.
pub(crate) fn of(
    tensor: &DLTensor,
    flags: u64,
    shape: Option<&[i64]>,
    strides: Option<&[i64]>,
) -> PyResult<Range<i128>> {
    if !HOST.contains(&tensor.device.device_type) {
        let device = (tensor.device.device_type.0, tensor.device.device_id);
        return Err(PyValueError::new_err(format!("the CPU cannot read device {device:?}")));
    }
    let mut bits = i128::from(tensor.dtype.bits) * i128::from(tensor.dtype.lanes);
    if flags & SUBBYTE_PADDED != 0 {
        bits = 8 * ((bits + 7) / 8);
    }
    let shape = shape.unwrap_or_default();
    // From the last dimension to the first, since `step` is the stride of C order. Numbers that are too large saturate:
    // no memory is that far away.
    let (mut first, mut last, mut step) = (0_i128, 0_i128, 1_i128);
    for (i, &extent) in shape.iter().enumerate().rev() {
        if extent <= 0 {
            return Ok(0..0);
        }
        let stride = strides.map_or(step, |strides| strides.get(i).map_or(0, |&s| s.into()));
        let reach = stride.saturating_mul(i128::from(extent) - 1);
        first = first.saturating_add(reach.min(0));
        last = last.saturating_add(reach.max(0));
        step = step.saturating_mul(extent.into());
    }
    let begin = first.saturating_mul(bits).div_euclid(8);
    let end = last.saturating_add(1).saturating_mul(bits).saturating_add(7).div_euclid(8);
    Ok(begin..end)
}
