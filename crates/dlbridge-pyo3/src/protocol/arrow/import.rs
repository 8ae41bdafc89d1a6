//! The import through Arrow.

use dlbridge::{Access, ArcTensor, CopyReason, DataType, RawParts, Tensor};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::abi::{
    ArrowArray, ArrowArrayStream, ArrowDeviceArray, ArrowSchema, Owned, Release, broken,
};
use super::elements::{Bits, nulls, room, values, without_nulls};
use super::export;
use super::fixed_shape::{self, Shape};
use super::format::Level;
use super::stream::only_chunk;
use crate::copies;
use crate::error::to_py_err;
use crate::frameworks::pandas;
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::interpreter::check_main_interpreter;
use crate::keepalive::{is_within, root};
use crate::protocol::memory::{MAX_NDIM, normalized, with_dtype};
use crate::protocol::time::Times;
use crate::protocol::{Lacking, Method, TypeInfo, type_info};
use crate::shown::shown;

/// Imports an object that supports Arrow; `None` for other objects.
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

/// The dtype of the numbers of an object that supports Arrow (inner `None` for packed booleans); `None` for other
/// objects, and for lists.
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
    // Dictionary codes, and stored elements with another meaning, need the full import.
    if !schema.dictionary.is_null() || !schema.metadata.is_null() {
        return Ok(None);
    }
    let Some(format) = schema.format() else { return Ok(None) };
    match Level::of_format(&format.to_string_lossy())? {
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
        let stream = method.call0().map_err(|error| pandas::without_pyarrow(object, error))?;
        only_chunk(py, Owned::take(&stream)?, times)?
    } else {
        return Ok(None);
    };
    check_main_interpreter(py)?;
    options.check_on_cpu("an Arrow array")?;
    let elements = Elements::of(object, schema.get(), array.get(), times)?;
    let shape = Shape::of(py, &schema, elements.shape)?;
    let (tensor, reason) = match elements.data {
        Data::Numbers(parts) => {
            let imported = match known_source(&array, &parts, &shape.extents) {
                // SAFETY: Range and Valid: the buffer has as many numbers as the extents need, which nothing writes
                // until the array is released; the source keeps them (Within of `keepalive.rs`).
                Some(source) => unsafe {
                    Tensor::from_raw_parts(source, parts, &shape.extents, None::<&[i64]>)
                },
                // SAFETY: Range and Valid: the buffer has as many numbers as the extents need, which nothing writes
                // until the array is released; the owner releases it when it is dropped.
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
                    "Arrow packs booleans eight to a byte, and unpacking needs a copy; leave \
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

/// The dlbridge tensor that keeps the elements of an array, if dlbridge made the array.
fn known_source(array: &Owned<ArrowArray>, parts: &RawParts, extents: &[i64]) -> Option<ArcTensor> {
    let tensor = export::tensor_of(array.get())?;
    let count =
        extents.iter().try_fold(1_usize, |n, &e| n.checked_mul(usize::try_from(e).ok()?))?;
    let first = parts.data.addr().checked_add(usize::try_from(parts.byte_offset).ok()?)?;
    let end = first.checked_add(count.checked_mul(parts.dtype.itemsize())?)?;
    is_within(&(first..end), tensor).then(|| root(tensor))
}

/// The schema and the other capsule that a method returned.
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

/// More bytes than a process can have: 64-bit addresses use at most 57 bits.
const MOST: i64 = if usize::BITS == 64 { 1 << 57 } else { i32::MAX as i64 };

impl Elements {
    /// Descends the levels of an array to its numbers.
    ///
    /// - **Range.** At each level, `first + count` is at most `offset + length` of the array: equal at the first
    ///   level, and checked where the loop descends to a child. So its buffers have `count` elements from `first` on
    ///   (Valid of `abi.rs`).
    fn of(
        object: &Bound<'_, PyAny>,
        schema: &ArrowSchema,
        array: &ArrowArray,
        times: Option<&Times>,
    ) -> PyResult<Self> {
        let (mut schema, mut array) = (schema, array);
        let mut shape = vec![array.length];
        // The elements of this level, counted from the start of its buffers.
        let (mut first, mut count) = (array.offset, array.length);
        loop {
            if [array.length, array.offset, first, count].iter().any(|&number| number < 0) {
                return Err(broken("a negative length or offset"));
            }
            if !array.dictionary.is_null() && schema.dictionary.is_null() {
                return Err(broken("a dictionary that its schema lacks"));
            }
            let level = Level::of(schema, times)?;
            if !matches!(level, Level::Lists(_)) && (schema.n_children, array.n_children) != (0, 0)
            {
                return Err(broken("children although its type has none"));
            }
            // Checked before the validity bits are read, to detect an impossible length.
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
                Level::Bits => Some(room::<u8>(count, "booleans, a byte each")?),
                _ => None,
            };
            // SAFETY: Range: the validity buffer, if there is one, has a bit for each of these elements.
            let nulls = unsafe { nulls(object, array, first, count) }?;
            // Only numbers are filled: a null list has elements in its child that are not null.
            let fill = matches!(level, Level::Numbers(_)) && times.is_some_and(|times| times.fill);
            if nulls > 0 && !fill {
                return Err(has_nulls(object, nulls, matches!(level, Level::Bits)));
            }
            let items = match level {
                Level::Lists(items) => items,
                Level::Numbers(dtype) => {
                    let data = values(array, count)?;
                    if nulls > 0 {
                        // SAFETY: Range. `times` is set, so the level has 64-bit numbers; there are elements, so
                        // `data` is not NULL.
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
                    let data = values(array, count)?;
                    // SAFETY: Range: the buffer has a bit for each element, and is NULL only if there are none.
                    let bits = unsafe { Bits::borrow(object, data, first, count) }?;
                    let bits = bits.positions();
                    let Some(mut values) = room else { unreachable!("there is room for booleans") };
                    let unpacked = values.view_mut::<u8>().map_err(to_py_err)?.into_mut_slice();
                    let unpacked = unpacked.expect("new tensors are contiguous");
                    copies::detached(unpacked.len(), |go_on| {
                        Ok(copies::each_block(unpacked, go_on, |begin, block| {
                            for (nth, value) in (begin..).zip(block) {
                                *value = bits.get(nth).into();
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
                return Err(broken("lists with a number of buffers other than one"));
            }
            let child = (schema.only_child(), array.only_child());
            let (Some(schema_of_items), Some(array_of_items)) = child else {
                return Err(broken("a child that is NULL or not aligned"));
            };
            if schema_of_items.is_released() || array_of_items.is_released() {
                return Err(broken("a child that was released"));
            }
            if fixed_shape::is_one(schema_of_items)? {
                return Err(fixed_shape::unfit("lists of tensors of a fixed shape"));
            }
            (schema, array) = (schema_of_items, array_of_items);
            shape.push(items);
            let scaled = (first.checked_mul(items), count.checked_mul(items));
            let (Some(start), Some(items)) = scaled else {
                return Err(broken("too many items to count"));
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

fn has_nulls(object: &Bound<'_, PyAny>, nulls: i64, booleans: bool) -> PyErr {
    let noun = if nulls == 1 { "null" } else { "nulls" };
    let rules = type_info::of(object).ok().and_then(|type_info| type_info.checks.arrow());
    let text = match rules.and_then(|rules| rules.nulls) {
        Some(text) => text(object, booleans),
        None => {
            "which a tensor cannot express; fill or drop them first, for example with fill_null, \
             which pyarrow and polars have"
        }
    };
    PyBufferError::new_err(format!("the Arrow array has {nulls} {noun}, {text}"))
}
