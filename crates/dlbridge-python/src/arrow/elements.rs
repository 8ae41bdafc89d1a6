//! The elements of an Arrow array: its values and its nulls.

use std::ffi::c_void;
use std::slice;

use dlbridge::{DataType, Element, Tensor, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use super::abi::{ArrowArray, broken};
use crate::memory::each_block;
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::protocol::type_info;
use dlbridge_pyo3::python::copies;
use dlbridge_pyo3::python::error::to_py_err;

/// The buffer with the array's numbers or bits; NULL only if it is empty.
pub(super) fn values(array: &ArrowArray, count: i64) -> PyResult<*const c_void> {
    let data = array.buffer(1).filter(|_| array.n_buffers == 2);
    let data = data.ok_or_else(|| broken("elements with a number of buffers other than two"))?;
    if data.is_null() && count > 0 {
        return Err(broken("no data although it has elements"));
    }
    Ok(data)
}

/// The validity bits of some elements of an array, and a borrow of them for reading; or without bits the stated number of
/// nulls.
///
/// # Safety
/// Range of `array.rs`, as long as the result lives.
unsafe fn validity<'a>(
    object: &Bound<'_, PyAny>,
    array: &'a ArrowArray,
    first: i64,
    count: i64,
) -> PyResult<Result<(Bits<'a>, Guard), i64>> {
    match array.buffer(0).filter(|validity| !validity.is_null()) {
        _ if array.null_count == 0 || count == 0 => Ok(Err(0)),
        // SAFETY: the caller's Range: the buffer, which is not NULL, has a bit for each of these elements.
        Some(validity) => unsafe { Bits::borrow(object, validity, first, count) }.map(Ok),
        None => Ok(Err(array.null_count.max(0))),
    }
}

/// The indices of the nulls among some elements of an array.
///
/// # Safety
/// Range of `array.rs`.
pub(super) unsafe fn null_places(
    object: &Bound<'_, PyAny>,
    array: &ArrowArray,
    first: i64,
    count: i64,
) -> PyResult<Vec<usize>> {
    // SAFETY: the caller's Range.
    match unsafe { validity(object, array, first, count) }? {
        Ok((bits, _reading)) => Ok((0..count as usize).filter(|&nth| !bits.get(nth)).collect()),
        Err(0) => Ok(Vec::new()),
        Err(_) => Err(broken("nulls but no validity bits")),
    }
}

/// The number of nulls among some elements of an array.
///
/// # Safety
/// Range of `array.rs`.
pub(super) unsafe fn nulls(
    object: &Bound<'_, PyAny>,
    array: &ArrowArray,
    first: i64,
    count: i64,
) -> PyResult<i64> {
    // SAFETY: the caller's Range.
    match unsafe { validity(object, array, first, count) }? {
        Ok((bits, _reading)) => {
            Ok((0..count as usize).filter(|&nth| !bits.get(nth)).count() as i64)
        }
        Err(stated) => Ok(stated),
    }
}

/// A copy of counts of time, with `NaT` for nulls.
///
/// # Safety
/// Range of `array.rs`. `data` is the array's buffer of 64-bit numbers, and is not NULL; there are elements.
pub(super) unsafe fn without_nulls(
    object: &Bound<'_, PyAny>,
    array: &ArrowArray,
    data: *const c_void,
    first: i64,
    count: i64,
) -> PyResult<Tensor> {
    // SAFETY: the caller's Range.
    let nulls = unsafe { null_places(object, array, first, count) }?;
    let numbers = data.cast::<i64>().wrapping_add(first as usize).cast_mut();
    // SAFETY: the caller's Range: the buffer, which is not NULL, has these numbers, which nothing writes (Valid).
    let numbers = unsafe { TensorRef::from_raw_run(numbers.cast(), DataType::INT64, &[count]) };
    let numbers = numbers.ok_or_else(wraps_around)?;
    let _reading = Guard::acquire(&type_info::of(object)?.borrowed, object, &numbers, Mode::Read)?;
    let mut copy = copies::copied(&numbers, 1)?;
    let mut counts = copy.view_mut::<i64>().map_err(to_py_err)?;
    nulls.into_iter().for_each(|nth| counts[[nth]] = i64::MIN);
    Ok(copy)
}

pub(super) fn wraps_around() -> PyErr {
    broken("a buffer that wraps around the address space")
}

/// Borrows bytes of a buffer for reading. No reference to them exists before: if a function has borrowed them for writing, this
/// is an error.
///
/// # Safety
/// `data` is not NULL, and leads to `count` bytes, at least one, which live as long as the guard (Valid of `abi.rs`).
unsafe fn borrow_bytes<'py>(
    object: &Bound<'py, PyAny>,
    data: *const c_void,
    count: usize,
) -> PyResult<Guard> {
    let type_info = type_info::of(object)?;
    // SAFETY: the caller guarantees the bytes. The borrow uses their address alone.
    let bytes =
        unsafe { TensorRef::from_raw_run(data.cast_mut(), DataType::UINT8, &[count as i64]) };
    let bytes = bytes.ok_or_else(wraps_around)?;
    Guard::acquire(&type_info.borrowed, object, &bytes, Mode::Read)
}

/// The bits of some elements, the lowest of each byte first.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// The position of the first bit in the first byte.
    shift: usize,
}

impl<'a> Bits<'a> {
    /// The bits, and a borrow for reading of the bytes that have them, which must live as long.
    ///
    /// # Safety
    /// `buffer` has a bit for each element from `first` on, `count` of them, which live as long as the result (Valid of
    /// `abi.rs`). It is NULL only if there are none. Neither number is negative or above [`MOST`](super::array::MOST).
    pub(super) unsafe fn borrow<'py>(
        object: &Bound<'py, PyAny>,
        buffer: *const c_void,
        first: i64,
        count: i64,
    ) -> PyResult<(Self, Guard)> {
        let end = (first + count) as usize;
        let (first, shift) = (first as usize / 8, first as usize % 8);
        if count == 0 {
            return Ok((Self { bytes: &[], shift }, Guard::NONE));
        }
        let (data, bytes) = (buffer.cast::<u8>().wrapping_add(first), end.div_ceil(8) - first);
        // SAFETY: the caller guarantees the bits, which are in these bytes.
        let reading = unsafe { borrow_bytes(object, data.cast(), bytes) }?;
        // SAFETY: the caller guarantees the bits, which are in these bytes, as long as the result lives. Nothing writes
        // them, by Valid and by the borrow, which lives as long.
        let bytes = unsafe { slice::from_raw_parts(data, bytes) };
        Ok((Self { bytes, shift }, reading))
    }

    /// Returns true if a bit is set.
    pub(super) fn get(&self, nth: usize) -> bool {
        let place = self.shift + nth;
        self.bytes[place / 8] >> (place % 8) & 1 == 1
    }
}

/// Zeros for the elements of an array, whose stated length may be wrong.
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

/// Writes the elements of a new tensor in one dimension, each by its index.
pub(super) fn filled<T: Element>(
    mut tensor: Tensor,
    value: impl Fn(usize) -> T + Sync,
) -> PyResult<Tensor> {
    let elements = tensor.view_mut::<T>().map_err(to_py_err)?.into_mut_slice();
    let elements = elements.expect("new tensors are contiguous");
    copies::detached(size_of_val(elements), |go_on| {
        Ok(each_block(elements, go_on, |begin, block| {
            for (nth, element) in (begin..).zip(block) {
                *element = value(nth);
            }
        }))
    })?;
    Ok(tensor)
}
