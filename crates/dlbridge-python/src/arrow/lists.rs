//! Lists: their offsets, and the values that the offsets divide; import and export.

use std::ffi::c_void;
use std::ops::Range;
use std::{mem, ptr};

use dlbridge::{Access, ArcTensor, CopyReason, DataType, Element, Result, Tensor, TensorRef};
use dlbridge_borrow::Mode;
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::{Imported, Protocol};
use dlbridge_pyo3::layout::root;
use dlbridge_pyo3::protocol::TypeInfo;
use dlbridge_pyo3::python::copies;
use dlbridge_pyo3::python::error::to_py_err;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::Capsules;
use super::abi::{ArrowArray, ArrowSchema, Owned, broken, child_pair};
use super::array::{Elements, MOST, Span, known_source, numbers};
use super::elements::{nulls, wraps_around};
use super::export::{array, capsule, data, form, list_of, schema};
use super::format::{check_plain, unfit};
use super::import::{exported, no_chunk};

/// Lists: list `i` has the values from `offsets[i]` to `offsets[i + 1]`.
pub(crate) struct Lists {
    pub(crate) offsets: Imported,
    /// The first and the last offset.
    pub(crate) range: Range<i64>,
    /// Up to the end of the last list.
    pub(crate) values: Imported,
}

/// Imports an array of lists, of texts or of binary values; `None` for an object without Arrow.
pub(crate) fn import_lists(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Option<Lists>> {
    let py = object.py();
    let Some(mut chunks) = exported(object, type_info, options, false)? else { return Ok(None) };
    let kind = Kind::of(chunks.schema())?;
    let array = chunks.only(py, several_chunks)?.ok_or_else(no_chunk)?;
    kind.import(object, type_info, chunks.schema(), array, options).map(Some)
}

fn several_chunks() -> PyErr {
    PyBufferError::new_err(
        "the Arrow stream has several chunks, whose offsets do not continue each other; combine them first, for \
         example with combine_chunks() or rechunk()",
    )
}

struct Kind {
    offsets: DataType,
    /// True if the items are the bytes of texts or binary values, in the last buffer; false if they are in the only
    /// child of the array.
    has_bytes: bool,
}

impl Kind {
    fn of(schema: &ArrowSchema) -> PyResult<Self> {
        check_plain(schema)?;
        let format = schema.format()?;
        let (offsets, has_bytes) = match format.to_bytes() {
            b"+l" => (DataType::INT32, false),
            b"+L" => (DataType::INT64, false),
            b"u" | b"z" => (DataType::INT32, true),
            b"U" | b"Z" => (DataType::INT64, true),
            _ => return Err(unfit(&format.to_string_lossy(), true)),
        };
        if !has_bytes
            && let Some(child) = schema.only_child()
            && child.format().is_ok_and(|format| matches!(format.to_bytes(), b"+l" | b"+L"))
        {
            return Err(PyBufferError::new_err(
                "the Arrow array has lists of lists, and offsets divide one level; flatten it first, for example with \
                 array.flatten() of pyarrow or series.explode() of polars",
            ));
        }
        Ok(Self { offsets, has_bytes })
    }

    /// Checks the array and its offsets, and makes the tensors over it.
    fn import(
        &self,
        object: &Bound<'_, PyAny>,
        type_info: &TypeInfo,
        schema: &ArrowSchema,
        owner: Owned<ArrowArray>,
        options: &ImportOptions,
    ) -> PyResult<Lists> {
        let (array, dtype) = (owner.get(), self.offsets);
        let (first, length, width) = (array.offset, array.length, dtype.itemsize() as i64);
        if first < 0 || length < 0 {
            return Err(broken("a negative length or offset"));
        }
        if !array.dictionary.is_null() {
            return Err(broken("a dictionary that its schema lacks"));
        }
        let (buffers, children, what) = match self.has_bytes {
            false => (2, 1, "lists without their two buffers and their one child"),
            true => (3, 0, "texts or binary values without their three buffers, or with children"),
        };
        if (array.n_buffers, schema.n_children, array.n_children) != (buffers, children, children) {
            return Err(broken(what));
        }
        // Checked before the validity bits are read, to detect an impossible length.
        let count = length.checked_add(1).filter(|&count| {
            let end = first.checked_add(count);
            end.and_then(|end| end.checked_mul(width)).is_some_and(|bytes| bytes <= MOST)
        });
        let count =
            count.ok_or_else(|| broken("more lists than the address space has room for"))?;
        // SAFETY: Valid of `abi.rs`: the validity buffer, if there is one, has a bit for each of the first
        // `offset + length` lists.
        let nulls = unsafe { nulls(object, array, first, length) }?;
        if nulls > 0 {
            return Err(has_nulls(nulls));
        }
        let data = array.buffer(1).ok_or_else(|| broken("no list of buffers"))?;
        let mut offsets = None;
        let mut range = 0..0;
        if length > 0 {
            if data.is_null() {
                return Err(broken("no offsets although it has lists"));
            }
            let place = data.cast::<u8>().wrapping_add((first * width) as usize);
            // SAFETY: Valid of `abi.rs`: the buffer, which is not NULL, has an offset for each of the first
            // `offset + length` lists and one more, until the array is released, and nothing writes them.
            let borrowed = unsafe {
                TensorRef::from_raw_run(place.cast_mut().cast::<c_void>(), dtype, &[count])
            };
            let borrowed = borrowed.ok_or_else(wraps_around)?;
            let _reading = Guard::acquire(&type_info.borrowed, object, &borrowed, Mode::Read)?;
            range = offsets_range(&borrowed)?.map_err(|fault| {
                PyBufferError::new_err(format!(
                    "{fault} of the Arrow array; the producer must fix that"
                ))
            })?;
            offsets = Some(numbers(data, dtype, first * width));
        }
        let (values, known_values) = match self.has_bytes {
            false => {
                let (schema, items) = child_pair(schema, array, 0)?;
                let span = Span { first: items.offset, count: range.end, unused: range.start };
                let values = Elements::of(object, schema, items, span, None)?;
                let known = values.known_source(items);
                (values, known)
            }
            true => {
                let bytes = array.buffer(2).ok_or_else(|| broken("no list of buffers"))?;
                if range.end > MOST {
                    return Err(broken("more bytes than the address space has room for"));
                }
                if bytes.is_null() && range.end > 0 {
                    return Err(broken("no bytes although its offsets need them"));
                }
                // SAFETY: Valid of `abi.rs`: the last offset is the number of bytes in the buffer.
                let values = unsafe { Elements::bytes(bytes, range.end) };
                (values, None)
            }
        };
        let extents = [count];
        let Some(parts) = offsets else {
            // SAFETY: the elements are those of the array, which the owner releases when it is dropped.
            let values = unsafe { values.into_tensor(owner, options.copy) }?;
            let offsets = Tensor::zeroed(dtype, [1]).map_err(to_py_err)?.into_read_only();
            return Ok(lists(offsets, range, values));
        };
        if let (Some(source), Some(source_of_values)) =
            (known_source(array, &parts, &extents), known_values)
        {
            // SAFETY: the offsets lie within those of the source, which keeps them (Within of `layout.rs` in `dlbridge-pyo3`).
            let offsets =
                unsafe { Tensor::from_raw_parts(source, parts, &extents, None::<&[i64]>) };
            // SAFETY: the elements lie within those of their known source.
            let values = unsafe { values.into_tensor(source_of_values, options.copy) }?;
            return Ok(lists(offsets.map_err(to_py_err)?, range, values));
        }
        // SAFETY: Valid of `abi.rs`: the buffer has `count` offsets from there on, which nothing writes until the array
        // is released; the owner releases it when it is dropped.
        let offsets = unsafe { Tensor::from_raw_parts(owner, parts, &extents, None::<&[i64]>) };
        let offsets = offsets.map_err(to_py_err)?.into_shared();
        let owner = ArrayOf { _offsets: offsets.clone() };
        // SAFETY: the elements are those of the array, which is not released before `offsets` is dropped.
        let values = unsafe { values.into_tensor(owner, options.copy) }?;
        Ok(lists(offsets.share(), range, values))
    }
}

/// Keeps the array that a tensor of offsets owns, for the tensor of its values.
struct ArrayOf {
    _offsets: ArcTensor,
}

fn lists(
    offsets: Tensor,
    range: Range<i64>,
    (values, reason): (Tensor, Option<CopyReason>),
) -> Lists {
    debug_assert_eq!(offsets.access(), Access::ReadOnly);
    Lists {
        offsets: Imported::new(offsets, Protocol::Arrow),
        range,
        values: Imported { reason, ..Imported::new(values, Protocol::Arrow) },
    }
}

fn has_nulls(nulls: i64) -> PyErr {
    let noun = if nulls == 1 { "null" } else { "nulls" };
    PyBufferError::new_err(format!(
        "the Arrow array has {nulls} {noun} among its lists, which offsets cannot express; drop them first, for example \
         with drop_null() of pyarrow, drop_nulls() of polars or dropna() of pandas"
    ))
}

/// The number of offsets that are copied at once: few enough for the first-level cache.
const BLOCK: usize = 1 << 12;

/// The first and the last offset, or what is wrong with the offsets: they must not decrease or be negative. They are
/// `int32` or `int64` in one dimension, at least one, and borrowed for reading.
///
/// Other libraries use them to read items, and do not check them. They are copied block by block, and the copies are
/// checked: no reference to memory that other code may write is made.
pub(crate) fn offsets_range(
    offsets: &TensorRef<'_>,
) -> PyResult<std::result::Result<Range<i64>, String>> {
    // With a stride of 0, any number of offsets are one in memory.
    let len = if offsets.strides() == [0] { 1 } else { offsets.len() };
    copies::detached(len.saturating_mul(offsets.dtype().itemsize()), |go_on| {
        let mut range = 0..0;
        for begin in (0..len).step_by(BLOCK) {
            if begin > 0 && !go_on() {
                return Ok(None);
            }
            let end = len.min(begin + BLOCK);
            let block = offsets.slice(0, begin..end)?.to_copy()?;
            let fault = match block.dtype() {
                DataType::INT32 => fault::<i32>(&block, begin, &mut range)?,
                _ => fault::<i64>(&block, begin, &mut range)?,
            };
            if let Some(fault) = fault {
                return Ok(Some(Err(fault)));
            }
        }
        Ok(Some(Ok(range)))
    })
}

/// Adds further offsets to the range of those before, and returns what is wrong with them. `begin` is the index of the
/// first one.
fn fault<T: Element + Copy + PartialOrd + Into<i64>>(
    offsets: &Tensor,
    begin: usize,
    range: &mut Range<i64>,
) -> Result<Option<String>> {
    let view = offsets.view::<T>()?;
    let offsets = view.as_slice().expect("a copy is contiguous");
    if begin == 0 {
        range.start = offsets.first().map_or(0, |&first| first.into());
    }
    // Without an early exit, so that the compiler can vectorise it.
    let increase = offsets.windows(2).fold(true, |so_far, pair| so_far & (pair[0] <= pair[1]));
    if let (true, [first, .., last]) = (increase, offsets)
        && (*first).into() >= range.end
    {
        range.end = (*last).into();
        return Ok(None);
    }
    for (index, &offset) in (begin..).zip(offsets) {
        let offset = offset.into();
        let last = mem::replace(&mut range.end, offset);
        if offset < last {
            return Ok(Some(match index {
                0 => format!("the first offset is {offset}, below 0"),
                _ => format!("the offsets decrease from {last} to {offset} at index {index}"),
            }));
        }
    }
    Ok(None)
}

/// A capsule over the schema and one over the array of lists. The caller has checked the offsets.
pub(crate) fn export_lists<'py>(
    py: Python<'py>,
    offsets: &ArcTensor,
    values: &ArcTensor,
) -> PyResult<Capsules<'py>> {
    let schema = export_lists_schema(py, offsets, values)?;
    // The number of elements at each level; their product fits because the tensor has a size, except for one
    // without elements, for which Arrow stores no numbers.
    let counts: Vec<_> = values
        .shape()
        .iter()
        .scan(1_i64, |count, &extent| {
            *count = count.saturating_mul(extent);
            Some(*count)
        })
        .collect();
    let (&numbers, lists) = counts.split_last().expect("the values have a dimension");
    let numbers = array(numbers, vec![ptr::null(), data(values)], None, Some(root(values)));
    let items = lists
        .iter()
        .rev()
        .fold(numbers, |items, &count| array(count, vec![ptr::null()], Some(items), None));
    let buffers = vec![ptr::null(), data(offsets)];
    let length = offsets.shape()[0].saturating_sub(1);
    Ok((schema, capsule(py, array(length, buffers, Some(items), Some(root(offsets))))?))
}

/// A capsule over the schema of the lists.
pub(crate) fn export_lists_schema<'py>(
    py: Python<'py>,
    offsets: &Tensor,
    values: &Tensor,
) -> PyResult<Bound<'py, PyCapsule>> {
    let format = match (offsets.dtype(), offsets.shape()) {
        (DataType::INT32, [_]) => c"+l",
        (DataType::INT64, [_]) => c"+L",
        (dtype, shape) => {
            return Err(PyBufferError::new_err(format!(
                "the offsets of an Arrow array of lists are int32 or int64 in one dimension, not {dtype} in the \
                 shape {shape:?}"
            )));
        }
    };
    // These refuse tensors that are not contiguous, or that the CPU cannot read.
    form(offsets)?;
    let (numbers, _) = form(values)?;
    // The product may be 0.
    if values.shape()[1..].iter().any(|&extent| i32::try_from(extent).is_err()) {
        return Err(PyBufferError::new_err(
            "the fixed-size lists of an Arrow array must be shorter than 2^31",
        ));
    }
    let numbers = schema(numbers, c"item", Vec::new(), None);
    let items = values.shape()[1..]
        .iter()
        .rev()
        .fold(numbers, |items, &extent| schema(&list_of(extent), c"item", Vec::new(), Some(items)));
    capsule(py, schema(format, c"", Vec::new(), Some(items)))
}
