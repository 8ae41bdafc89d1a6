//! Arrow as a consumer.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;

use dlbridge::{Access, DataType, RawParts, Tensor};
use pyo3::exceptions::PyBufferError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema, Owned, Release};
use super::fixed_shape::{self, Shape};
use super::format::Level;
use super::stream::only_chunk;
use crate::error::to_py_err;
use crate::interpreter::check_main_interpreter;
use crate::protocol::memory::MAX_NDIM;
use crate::protocol::{Imported, Protocol, attribute};
use crate::receipt::CopyReason;
use crate::wanted::Wanted;

/// Imports an object that speaks Arrow; `None` for one that does not.
pub(in crate::protocol) fn import(
    object: &Bound<'_, PyAny>,
    wanted: &Wanted,
) -> PyResult<Option<Imported>> {
    let py = object.py();
    let (schema, array) = if let Some(method) = attribute(object, intern!(py, "__arrow_c_array__"))?
    {
        let (schema, array) = pair(&method.call0()?)?;
        (schema, Owned::take(&array)?)
    } else if let Some(method) = attribute(object, intern!(py, "__arrow_c_device_array__"))? {
        let (schema, array) = pair(&method.call0()?)?;
        (schema, Owned::<ArrowDeviceArray>::take(&array)?.on_cpu()?)
    } else if let Some(method) = attribute(object, intern!(py, "__arrow_c_stream__"))? {
        only_chunk(py, Owned::take(&method.call0()?)?)?
    } else {
        return Ok(None);
    };
    check_main_interpreter(py)?;
    wanted.check_on_cpu("an Arrow array")?;
    // SAFETY: the interface: valid structs, which describe each other.
    let elements = unsafe { Elements::of(schema.get(), array.get()) }?;
    let shape = Shape::of(py, &schema, elements.shape)?;
    let (tensor, reason) = match elements.data {
        Data::Numbers(parts) => {
            // SAFETY: the interface: as many numbers as were found to be there, which stay until the
            // array is released and which nobody writes.
            let tensor =
                unsafe { Tensor::from_raw_parts(array, parts, &shape.extents, None::<&[i64]>) };
            (tensor.map_err(to_py_err)?, None)
        }
        Data::Bits(values) => {
            if wanted.copy == Some(false) {
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

/// The schema and the other capsule that a method answers with.
fn pair<'py>(answer: &Bound<'py, PyAny>) -> PyResult<(Owned<ArrowSchema>, Bound<'py, PyAny>)> {
    let wrong =
        || PyBufferError::new_err(format!("expected a tuple of two capsules, not {answer}"));
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
}

impl Elements {
    /// Goes down the levels of an array to its numbers.
    ///
    /// # Safety
    /// Valid structs, which describe each other.
    unsafe fn of(schema: &ArrowSchema, array: &ArrowArray) -> PyResult<Self> {
        let (mut schema, mut array) = (schema, array);
        let mut shape = vec![array.length];
        // The elements of this level, counted from the beginning of its buffers.
        let (mut first, mut count) = (array.offset, array.length);
        loop {
            if [array.length, array.offset, first, count].iter().any(|&number| number < 0) {
                return Err(broken("a negative length or offset"));
            }
            // SAFETY: by contract.
            unsafe { check_nulls(array, first, count) }?;
            // SAFETY: by contract.
            let items = match unsafe { Level::of(schema) }? {
                Level::Lists(items) => items,
                Level::Numbers(dtype) => {
                    // SAFETY: by contract.
                    let data = unsafe { buffer(array, 1, count) }?;
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
                    // SAFETY: the interface: as many bits are there.
                    let bit = |nth: i64| unsafe { bit(data, nth) };
                    let places = range(first, count)?;
                    let values = Tensor::zeros(DataType::BOOL, [count as usize]);
                    let mut values =
                        values.map_err(|_| broken("more truth values than there is memory for"))?;
                    let mut unpacked = values.view_mut::<bool>().map_err(to_py_err)?;
                    for (value, place) in unpacked.iter_mut().zip(places) {
                        *value = bit(place);
                    }
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
                return Err(broken("a child that is NULL"));
            };
            if schema_of_items.is_released() || array_of_items.is_released() {
                return Err(broken("a child that was released"));
            }
            // SAFETY: by contract.
            if unsafe { fixed_shape::is_one(schema_of_items) } {
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

pub(super) fn broken(what: &str) -> PyErr {
    PyBufferError::new_err(format!("the Arrow array has {what}; the producer must mend that"))
}

fn range(first: i64, count: i64) -> PyResult<Range<i64>> {
    let end = first.checked_add(count).ok_or_else(|| broken("an offset that is too large"))?;
    Ok(first..end)
}

/// # Safety
/// NULL, or at least one pointer that is NULL or valid.
unsafe fn child<'a, T>(children: *mut *mut T) -> Option<&'a T> {
    // SAFETY: by contract.
    unsafe { children.as_ref().and_then(|child| child.as_ref()) }
}

/// A buffer of an array, NULL only if no elements are in it.
///
/// # Safety
/// A valid array.
unsafe fn buffer(array: &ArrowArray, nth: usize, count: i64) -> PyResult<*const c_void> {
    if array.n_buffers != 2 || array.buffers.is_null() {
        return Err(broken("another number of buffers than the two of numbers"));
    }
    // SAFETY: by contract as many pointers are there.
    let data = unsafe { *array.buffers.add(nth) };
    if data.is_null() && count > 0 {
        return Err(broken("no data although it has elements"));
    }
    Ok(data)
}

/// Refuses nulls among some elements of an array.
///
/// # Safety
/// A valid array.
unsafe fn check_nulls(array: &ArrowArray, first: i64, count: i64) -> PyResult<()> {
    if array.null_count == 0 || count == 0 {
        return Ok(());
    }
    let validity = match array.n_buffers > 0 && !array.buffers.is_null() {
        // SAFETY: by contract as many pointers are there.
        true => unsafe { *array.buffers }.cast::<u8>(),
        false => ptr::null(),
    };
    if validity.is_null() && array.null_count < 0 {
        return Ok(());
    }
    let nulls = if validity.is_null() {
        array.null_count
    } else {
        // SAFETY: the interface: a bit for each element.
        let is_null = |nth: &i64| !unsafe { bit(validity, *nth) };
        range(first, count)?.filter(is_null).count() as i64
    };
    if nulls == 0 {
        return Ok(());
    }
    Err(PyBufferError::new_err(format!(
        "the Arrow array has {nulls} nulls, which a tensor cannot express; fill them, for example \
         with fill_null(0), or leave them out with drop_null() (fillna(0) and dropna() of pandas)"
    )))
}

/// # Safety
/// So many bits are there.
unsafe fn bit(bits: *const u8, nth: i64) -> bool {
    // SAFETY: by contract.
    unsafe { *bits.add((nth / 8) as usize) >> (nth % 8) & 1 == 1 }
}
