//! The elements of an Arrow array: its values and its nulls.

use std::ffi::c_void;
use std::ops::Range;
use std::{ptr, slice};

use dlbridge::{Element, Tensor, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use super::abi::{ArrowArray, broken};
use crate::borrow::Guard;
use crate::copies;
use crate::error::to_py_err;
use crate::protocol::type_info;

/// The buffer of an array with its numbers or bits, NULL only if no elements are in it.
pub(super) fn values(array: &ArrowArray, count: i64) -> PyResult<*const c_void> {
    let data = array.buffer(1).filter(|_| array.n_buffers == 2);
    let data = data.ok_or_else(|| broken("another number of buffers than the two of numbers"))?;
    if data.is_null() && count > 0 {
        return Err(broken("no data although it has elements"));
    }
    Ok(data)
}

/// The number of nulls among some elements of an array.
///
/// # Safety
/// Range of `import.rs`.
pub(super) unsafe fn nulls(array: &ArrowArray, first: i64, count: i64) -> PyResult<i64> {
    if array.null_count == 0 || count == 0 {
        return Ok(0);
    }
    let validity = array.buffer(0).unwrap_or(ptr::null()).cast::<u8>();
    if validity.is_null() {
        return Ok(array.null_count.max(0));
    }
    // SAFETY: the caller's Range: the buffer, which is not NULL, has a bit for each of these elements.
    let is_null = |nth: &i64| !unsafe { bit(validity, *nth) };
    Ok(range(first, count)?.filter(is_null).count() as i64)
}

/// A copy of counts of time, with `NaT` for nulls.
///
/// # Safety
/// Range of `import.rs`. `data` is the buffer with the numbers of the array, which have 64 bits, and is not NULL.
pub(super) unsafe fn without_nulls(
    object: &Bound<'_, PyAny>,
    array: &ArrowArray,
    data: *const c_void,
    first: i64,
    count: i64,
) -> PyResult<Tensor> {
    let places = range(first, count)?;
    let validity = array.buffer(0).filter(|validity| !validity.is_null());
    let validity = validity.ok_or_else(|| broken("nulls and no validity bits"))?.cast::<u8>();
    let type_info = type_info::of(object)?;
    // SAFETY: the caller's Range: both buffers, which are not NULL, have a number and a bit for each place up to `places.end`; and Valid:
    // nothing writes them. The numbers are read as bytes, which need no alignment.
    let (numbers, bits) = unsafe {
        let end = places.end as usize;
        (
            slice::from_raw_parts(data.cast::<[u8; 8]>(), end),
            slice::from_raw_parts(validity, end.div_ceil(8)),
        )
    };
    let bytes = TensorRef::from(numbers.as_flattened());
    let _reading = Guard::acquire(&type_info.borrowed, object, &bytes, Mode::Read)?;
    let mut times = room::<i64>(count, "times")?;
    let filled = times.view_mut::<i64>().map_err(to_py_err)?.into_mut_slice();
    let filled = filled.expect("new tensors are contiguous");
    copies::detached(numbers.len() * 8, |go_on| {
        Ok(copies::each_block(filled, go_on, |begin, block| {
            for (place, value) in (first as usize + begin..).zip(block) {
                *value = match bits[place / 8] >> (place % 8) & 1 {
                    1 => i64::from_ne_bytes(numbers[place]),
                    _ => i64::MIN,
                };
            }
        }))
    })?;
    Ok(times)
}

/// Zeros for the elements of an array, which may be fewer than it says that it has.
pub(super) fn room<T: Element>(count: i64, what: &str) -> PyResult<Tensor> {
    let extent = usize::try_from(count).unwrap_or(usize::MAX);
    let bytes = extent.saturating_mul(size_of::<T>());
    let room = copies::detached(bytes, |_| Ok(Some(Tensor::zeros::<T>([extent]).ok())))?;
    room.ok_or_else(|| {
        PyMemoryError::new_err(format!(
            "no memory for the {count} {what}, of an Arrow array; import a slice of it"
        ))
    })
}

pub(super) fn range(first: i64, count: i64) -> PyResult<Range<i64>> {
    let end = first.checked_add(count).ok_or_else(|| broken("an offset that is too large"))?;
    Ok(first..end)
}

/// Returns true if a bit is set.
///
/// # Safety
/// `bits` leads to more than `nth` bits, and `nth` is not negative.
unsafe fn bit(bits: *const u8, nth: i64) -> bool {
    // SAFETY: the caller promises the bit, which is in this byte.
    unsafe { *bits.add((nth / 8) as usize) >> (nth % 8) & 1 == 1 }
}
