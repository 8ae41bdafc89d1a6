//! Arrow as a consumer.

use std::ffi::{CStr, c_void};
use std::ops::Range;
use std::sync::Arc;
use std::{ptr, slice};

use dlbridge::{Access, CopyReason, DataType, Element, RawParts, Tensor, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::exceptions::{PyBufferError, PyMemoryError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::abi::{
    ArrowArray, ArrowArrayStream, ArrowDeviceArray, ArrowSchema, Owned, Release, broken,
};
use super::export;
use super::fixed_shape::{self, Shape};
use super::format::Level;
use super::stream::only_chunk;
use crate::borrow::Guard;
use crate::copies;
use crate::error::to_py_err;
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::interpreter::check_main_interpreter;
use crate::keepalive::{is_within, root};
use crate::protocol::memory::{MAX_NDIM, normalized, with_dtype};
use crate::protocol::time::Times;
use crate::protocol::{Lacking, Method, TypeInfo, type_info};
use crate::shown::shown;

/// Imports an object that speaks Arrow; `None` for one that does not.
pub(crate) fn import(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    lacking: Lacking,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    import_as(object, type_info, lacking, options, None)
}

/// Imports the counts of times.
pub(crate) fn import_times(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    lacking: Lacking,
    times: &Times,
) -> PyResult<Option<Imported>> {
    import_as(object, type_info, lacking, &ImportOptions::default(), Some(times))
}

/// The dtype of the numbers of an object that speaks Arrow, `None` within for packed booleans; `None` for other objects, and for
/// lists.
///
/// # Errors
/// The refusal of elements that a tensor cannot express.
pub(crate) fn described(object: &Bound<'_, PyAny>) -> PyResult<Option<Option<DataType>>> {
    let method = |method: Method| method.of(object, Lacking::UNKNOWN);
    let array = match method(Method::ArrowArray)? {
        None => method(Method::ArrowDeviceArray)?,
        array => array,
    };
    let schema = match array {
        Some(array) => Owned::take(&array.call0()?.get_item(0)?)?,
        None => match method(Method::ArrowStream)? {
            Some(stream) => {
                Owned::<ArrowArrayStream>::take(&stream.call0()?)?.schema(object.py())?
            }
            None => return Ok(None),
        },
    };
    let schema = schema.get();
    // The codes of a dictionary, and stored elements with another meaning, are left to the full import.
    if schema.format.is_null() || !schema.dictionary.is_null() || !schema.metadata.is_null() {
        return Ok(None);
    }
    // SAFETY: the interface: a valid schema, whose format is a string.
    match Level::of_format(&unsafe { CStr::from_ptr(schema.format) }.to_string_lossy())? {
        Level::Numbers(dtype) => Ok(Some(Some(dtype))),
        Level::Bits => Ok(Some(None)),
        Level::Lists(_) => Ok(None),
    }
}

fn import_as(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    lacking: Lacking,
    options: &ImportOptions,
    times: Option<&Times>,
) -> PyResult<Option<Imported>> {
    let py = object.py();
    let rules = type_info.checks.arrow();
    if let Some(rules) = rules {
        (rules.check)(object, options)?;
    }
    let (schema, array) = if let Some(method) = Method::ArrowArray.of(object, lacking)? {
        let answer = method.call0().map_err(|error| match rules {
            Some(rules) => (rules.explain)(object, options, error),
            None => error,
        })?;
        let (schema, array) = pair(&answer)?;
        (schema, Owned::take(&array)?)
    } else if let Some(method) = Method::ArrowDeviceArray.of(object, lacking)? {
        let (schema, array) = pair(&method.call0()?)?;
        (schema, Owned::<ArrowDeviceArray>::take(&array)?.on_cpu()?)
    } else if let Some(method) = Method::ArrowStream.of(object, lacking)? {
        only_chunk(py, Owned::take(&method.call0()?)?, times)?
    } else {
        return Ok(None);
    };
    check_main_interpreter(py)?;
    options.check_on_cpu("an Arrow array")?;
    // SAFETY: the interface: valid structs, which describe each other.
    let elements = unsafe { Elements::of(object, schema.get(), array.get(), times) }?;
    let shape = Shape::of(py, &schema, elements.shape)?;
    let (tensor, reason) = match elements.data {
        Data::Numbers(parts) => {
            // SAFETY: the interface: as many numbers as were found to be there, which stay until the
            // array is released and which nothing writes.
            let imported = match unsafe { known_source(&array, &parts, &shape.extents) } {
                // SAFETY: as above; the source keeps the elements (Within).
                Some(source) => unsafe {
                    Tensor::from_raw_parts(source, parts, &shape.extents, None::<&[i64]>)
                },
                // SAFETY: as above.
                None => unsafe {
                    Tensor::from_raw_parts(array, parts, &shape.extents, None::<&[i64]>)
                },
            };
            normalized(imported.map_err(to_py_err)?, options.copy)?
        }
        Data::Filled(times) => (times, Some(CopyReason::Nulls)),
        Data::Bits(values) => {
            if options.copy == Some(false) {
                return Err(PyBufferError::new_err(
                    "Arrow packs truth values eight to a byte, and to unpack them needs a copy; leave \
                     out copy=False, or cast them to uint8 first",
                ));
            }
            let extents: Vec<_> = shape.extents.iter().map(|&extent| extent as usize).collect();
            let tensor = values.reshape(extents).map_err(to_py_err)?;
            (tensor, Some(CopyReason::BitPacked))
        }
    };
    let tensor = match shape.permutation {
        Some(order) => tensor.permute(order).map_err(to_py_err)?,
        None => tensor,
    };
    Ok(Some(Imported { reason, ..Imported::new(tensor, Protocol::Arrow) }))
}

/// The tensor of ours that keeps the elements of an array, if it was made here.
///
/// # Safety
/// A valid array, and elements of it.
unsafe fn known_source(
    array: &Owned<ArrowArray>,
    parts: &RawParts,
    extents: &[i64],
) -> Option<Arc<Tensor>> {
    // SAFETY: by contract.
    let tensor = unsafe { export::tensor_of(array.get()) }?;
    let count =
        extents.iter().try_fold(1_usize, |n, &e| n.checked_mul(usize::try_from(e).ok()?))?;
    let first = parts.data.addr().checked_add(usize::try_from(parts.byte_offset).ok()?)?;
    let end = first.checked_add(count.checked_mul(parts.dtype.itemsize())?)?;
    is_within(&(first..end), tensor).then(|| root(tensor))
}

/// The schema and the other capsule that a method answers with.
fn pair<'py>(answer: &Bound<'py, PyAny>) -> PyResult<(Owned<ArrowSchema>, Bound<'py, PyAny>)> {
    let wrong = || {
        PyBufferError::new_err(format!("expected a tuple of two capsules, not {}", shown(answer)))
    };
    let pair = answer.cast::<PyTuple>().map_err(|_| wrong())?;
    let (schema, array) = pair.extract::<(Bound<'_, PyAny>, _)>().map_err(|_| wrong())?;
    Ok((Owned::take(&schema)?, array))
}

/// The elements of an array.
struct Elements {
    /// The length of the array, then those of its lists.
    shape: Vec<i64>,
    data: Data,
}

enum Data {
    Numbers(RawParts),
    /// Already unpacked, in one dimension.
    Bits(Tensor),
    /// Times, with `NaT` for nulls, in one dimension.
    Filled(Tensor),
}

/// More bytes than any process can have: addresses of 64 bits have at most 57 that are used.
const MOST: i64 = if usize::BITS == 64 { 1 << 57 } else { i32::MAX as i64 };

impl Elements {
    /// Goes down the levels of an array to its numbers.
    ///
    /// # Safety
    /// Valid structs, which describe each other.
    unsafe fn of(
        object: &Bound<'_, PyAny>,
        schema: &ArrowSchema,
        array: &ArrowArray,
        times: Option<&Times>,
    ) -> PyResult<Self> {
        let (mut schema, mut array) = (schema, array);
        let mut shape = vec![array.length];
        // The elements of this level, counted from the beginning of its buffers.
        let (mut first, mut count) = (array.offset, array.length);
        loop {
            if [array.length, array.offset, first, count].iter().any(|&number| number < 0) {
                return Err(broken("a negative length or offset"));
            }
            if !array.dictionary.is_null() && schema.dictionary.is_null() {
                return Err(broken("a dictionary that its schema does not have"));
            }
            // SAFETY: by contract.
            let level = unsafe { Level::of(schema, times) }?;
            if !matches!(level, Level::Lists(_)) && (schema.n_children, array.n_children) != (0, 0)
            {
                return Err(broken("children although its type has none"));
            }
            // Before the validity bits are read: a length that cannot be true is found here.
            let bytes = match level {
                Level::Numbers(dtype) => dtype.itemsize() as i64,
                Level::Bits | Level::Lists(_) => 1,
            };
            if count.checked_mul(bytes).is_none_or(|bytes| bytes > MOST) {
                return Err(broken("more elements than the address space has room for"));
            }
            if first.checked_mul(bytes).is_none_or(|bytes| bytes > MOST) {
                return Err(broken("an offset that is too large"));
            }
            let room = match level {
                Level::Bits => Some(room::<u8>(count, "truth values, a byte each")?),
                _ => None,
            };
            // SAFETY: by contract.
            let nulls = unsafe { nulls(array, first, count) }?;
            // Only numbers are filled: a list that is null has elements in its child, which are not null.
            let fill = matches!(level, Level::Numbers(_)) && times.is_some_and(|times| times.fill);
            if nulls > 0 && !fill {
                return Err(has_nulls(object, nulls, matches!(level, Level::Bits)));
            }
            let items = match level {
                Level::Lists(items) => items,
                Level::Numbers(dtype) => {
                    // SAFETY: by contract.
                    let data = unsafe { buffer(array, 1, count) }?;
                    if nulls > 0 {
                        // SAFETY: by contract; the counts were found to be there.
                        let filled = unsafe { without_nulls(object, array, data, first, count) }?;
                        return Ok(Self { shape, data: Data::Filled(filled) });
                    }
                    let bytes = first.checked_mul(dtype.itemsize() as i64);
                    let bytes = bytes.ok_or_else(|| broken("an offset that is too large"))?;
                    let parts = RawParts {
                        byte_offset: if data.is_null() { 0 } else { bytes as u64 },
                        access: Access::ReadOnly,
                        ..RawParts::new(data.cast_mut(), dtype)
                    };
                    return Ok(Self { shape, data: Data::Numbers(parts) });
                }
                Level::Bits => {
                    // SAFETY: by contract.
                    let data = unsafe { buffer(array, 1, count) }?.cast::<u8>();
                    let places = range(first, count)?;
                    let bits: &[u8] = match count {
                        0 => &[],
                        // SAFETY: the interface: as many bits are there, which nothing writes.
                        _ => unsafe {
                            slice::from_raw_parts(data, (places.end as usize).div_ceil(8))
                        },
                    };
                    let Some(mut values) = room else {
                        unreachable!("there is room for truth values")
                    };
                    let unpacked = values.view_mut::<u8>().map_err(to_py_err)?.into_mut_slice();
                    let unpacked = unpacked.expect("new tensors are contiguous");
                    let type_info = type_info::of(object)?;
                    let _reading = Guard::acquire(
                        &type_info.borrowed,
                        object,
                        &TensorRef::from(bits),
                        Mode::Read,
                    )?;
                    copies::detached(unpacked.len(), |go_on| {
                        Ok(copies::each_block(unpacked, go_on, |begin, block| {
                            for (place, value) in (first as usize + begin..).zip(block) {
                                *value = bits[place / 8] >> (place % 8) & 1;
                            }
                        }))
                    })?;
                    let values = with_dtype(values, DataType::BOOL, false, &[count])?;
                    return Ok(Self { shape, data: Data::Bits(values) });
                }
            };
            if shape.len() == MAX_NDIM {
                return Err(broken("more levels of lists than a tensor has dimensions"));
            }
            if items < 0 || schema.n_children != 1 || array.n_children != 1 {
                return Err(broken("a fixed-size list without its one child"));
            }
            if array.n_buffers != 1 {
                return Err(broken("another number of buffers than the one of lists"));
            }
            // SAFETY: the interface: as many children, none of them NULL.
            let child = unsafe { (child(schema.children), child(array.children)) };
            let (Some(schema_of_items), Some(array_of_items)) = child else {
                return Err(broken("a child that is NULL or not aligned"));
            };
            if schema_of_items.is_released() || array_of_items.is_released() {
                return Err(broken("a child that was released"));
            }
            // SAFETY: by contract.
            if unsafe { fixed_shape::is_one(schema_of_items) }? {
                return Err(fixed_shape::unfit("lists of tensors of a fixed shape"));
            }
            (schema, array) = (schema_of_items, array_of_items);
            shape.push(items);
            let scaled = (first.checked_mul(items), count.checked_mul(items));
            let (Some(start), Some(items)) = scaled else {
                return Err(broken("more items than can be counted"));
            };
            if start.checked_add(items).is_none_or(|end| end > array.length) {
                return Err(broken("fewer items than its lists need"));
            }
            let start = start.checked_add(array.offset);
            first = start.ok_or_else(|| broken("an offset that is too large"))?;
            count = items;
        }
    }
}

/// A copy of counts of time, with `NaT` for nulls.
///
/// # Safety
/// A valid array with validity bits, and its numbers of 64 bits at `data`, which nothing writes.
unsafe fn without_nulls(
    object: &Bound<'_, PyAny>,
    array: &ArrowArray,
    data: *const c_void,
    first: i64,
    count: i64,
) -> PyResult<Tensor> {
    let places = range(first, count)?;
    // SAFETY: by contract.
    let validity = unsafe { *array.buffers }.cast::<u8>();
    if validity.is_null() {
        return Err(broken("nulls and no validity bits"));
    }
    let type_info = type_info::of(object)?;
    // SAFETY: by contract: a number and a bit for each element, from the beginning of the buffers.
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
fn room<T: Element>(count: i64, what: &str) -> PyResult<Tensor> {
    let extent = usize::try_from(count).unwrap_or(usize::MAX);
    let bytes = extent.saturating_mul(size_of::<T>());
    let room = copies::detached(bytes, |_| Ok(Some(Tensor::zeros::<T>([extent]).ok())))?;
    room.ok_or_else(|| {
        PyMemoryError::new_err(format!(
            "no memory for the {count} {what}, of an Arrow array; import a slice of it"
        ))
    })
}

fn range(first: i64, count: i64) -> PyResult<Range<i64>> {
    let end = first.checked_add(count).ok_or_else(|| broken("an offset that is too large"))?;
    Ok(first..end)
}

/// # Safety
/// NULL, not aligned, or at least one pointer that is NULL, not aligned, or valid.
unsafe fn child<'a, T>(children: *mut *mut T) -> Option<&'a T> {
    if !children.is_aligned() {
        return None;
    }
    // SAFETY: by contract, aligned.
    let child = unsafe { children.as_ref() }.copied().filter(|child| child.is_aligned())?;
    // SAFETY: by contract, aligned.
    unsafe { child.as_ref() }
}

/// A buffer of an array, NULL only if no elements are in it.
///
/// # Safety
/// A valid array.
unsafe fn buffer(array: &ArrowArray, nth: usize, count: i64) -> PyResult<*const c_void> {
    if array.n_buffers != 2 || array.buffers.is_null() || !array.buffers.is_aligned() {
        return Err(broken("another number of buffers than the two of numbers"));
    }
    // SAFETY: by contract as many pointers are there.
    let data = unsafe { *array.buffers.add(nth) };
    if data.is_null() && count > 0 {
        return Err(broken("no data although it has elements"));
    }
    Ok(data)
}

/// The number of nulls among some elements of an array.
///
/// # Safety
/// A valid array.
unsafe fn nulls(array: &ArrowArray, first: i64, count: i64) -> PyResult<i64> {
    if array.null_count == 0 || count == 0 {
        return Ok(0);
    }
    let has_buffers = array.n_buffers > 0 && !array.buffers.is_null() && array.buffers.is_aligned();
    let validity = match has_buffers {
        // SAFETY: by contract as many pointers are there.
        true => unsafe { *array.buffers }.cast::<u8>(),
        false => ptr::null(),
    };
    if validity.is_null() {
        return Ok(array.null_count.max(0));
    }
    // SAFETY: the interface: a bit for each element.
    let is_null = |nth: &i64| !unsafe { bit(validity, *nth) };
    Ok(range(first, count)?.filter(is_null).count() as i64)
}

fn has_nulls(object: &Bound<'_, PyAny>, nulls: i64, booleans: bool) -> PyErr {
    let noun = if nulls == 1 { "null" } else { "nulls" };
    let rules = type_info::of(object).ok().and_then(|type_info| type_info.checks.arrow());
    let text = match rules.and_then(|rules| rules.nulls) {
        Some(text) => text(object, booleans),
        None => {
            "which a tensor cannot express; fill them or leave them out first, for example with fill_null, \
             which pyarrow and polars have"
        }
    };
    PyBufferError::new_err(format!("the Arrow array has {nulls} {noun}, {text}"))
}

/// # Safety
/// So many bits are there.
unsafe fn bit(bits: *const u8, nth: i64) -> bool {
    // SAFETY: by contract.
    unsafe { *bits.add((nth / 8) as usize) >> (nth % 8) & 1 == 1 }
}
