//! Lists: their offsets, and the values that the offsets divide; import and export.

use std::ffi::{CStr, CString, c_void};
use std::ops::Range;
use std::ptr;

use dlbridge::{
    Access, ArcTensor, CopyReason, DataType, Element, RawParts, Result, Tensor, TensorRef,
};
use dlbridge_borrow::Mode;
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::copies;
use dlbridge_pyo3::error::to_py_err;
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::{Imported, Protocol};
use dlbridge_pyo3::keepalive::root;
use dlbridge_pyo3::protocol::TypeInfo;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::abi::{ArrowArray, ArrowSchema, Owned, Release, broken};
use super::array::{Elements, MOST, Span, known_source, numbers};
use super::elements::nulls;
use super::export::{Form, array, capsule, data, schema};
use super::exported::{Chunks, Exported, exported};
use super::format::{check_plain, unfit_for_lists};

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
    let Some(exported) = exported(object, type_info, options)? else { return Ok(None) };
    let (schema, array) = match exported {
        Exported::Array(schema, array) => (schema, array),
        Exported::Stream(stream) => {
            let mut chunks = Chunks::of(py, stream, |schema| Kind::of(schema).map(drop))?;
            let array = chunks.only(py, several_chunks)?.ok_or_else(no_chunk)?;
            (chunks.into_schema(), array)
        }
    };
    let kind = Kind::of(schema.get())?;
    let described = kind.described(object, type_info, schema.get(), array.get())?;
    described.into_lists(array, options).map(Some)
}

fn several_chunks() -> PyErr {
    PyBufferError::new_err(
        "the Arrow stream has several chunks, whose offsets do not continue each other; combine them first, for \
         example with combine_chunks() or rechunk()",
    )
}

/// The refusal of a stream without arrays, of a type that has more to it than numbers.
pub(super) fn no_chunk() -> PyErr {
    PyBufferError::new_err(
        "the Arrow stream lacks chunks; make one first, for example with combine_chunks()",
    )
}

/// The type of an array of lists.
struct Kind {
    offsets: DataType,
    items: Items,
}

/// Where the items of lists are.
#[derive(Clone, Copy, PartialEq)]
enum Items {
    /// In the only child of the array.
    Child,
    /// In its last buffer: the bytes of texts and binary values.
    Bytes,
}

/// The offsets and the values in the memory of an array.
struct Described {
    /// `None` for an array without lists, whose buffer may lack offsets.
    offsets: Option<RawParts>,
    dtype: DataType,
    /// The number of offsets.
    count: i64,
    /// The first and the last offset.
    range: Range<i64>,
    values: Elements,
    known_offsets: Option<ArcTensor>,
    known_values: Option<ArcTensor>,
}

impl Kind {
    fn of(schema: &ArrowSchema) -> PyResult<Self> {
        check_plain(schema)?;
        let (offsets, items) = match schema.format().map(|format| format.to_bytes()) {
            Some(b"+l") => (DataType::INT32, Items::Child),
            Some(b"+L") => (DataType::INT64, Items::Child),
            Some(b"u" | b"z") => (DataType::INT32, Items::Bytes),
            Some(b"U" | b"Z") => (DataType::INT64, Items::Bytes),
            _ => return Err(unfit_for_lists(schema)),
        };
        if items == Items::Child
            && let Some(child) = schema.only_child()
            && matches!(child.format().map(|format| format.to_bytes()), Some(b"+l" | b"+L"))
        {
            return Err(PyBufferError::new_err(
                "the Arrow array has lists of lists, and offsets divide one level; flatten it first, for example with \
                 array.flatten() of pyarrow or series.explode() of polars",
            ));
        }
        Ok(Self { offsets, items })
    }

    /// Checks the array and its offsets.
    fn described(
        &self,
        object: &Bound<'_, PyAny>,
        type_info: &TypeInfo,
        schema: &ArrowSchema,
        array: &ArrowArray,
    ) -> PyResult<Described> {
        let (first, length, width) = (array.offset, array.length, self.offsets.itemsize() as i64);
        if first < 0 || length < 0 {
            return Err(broken("a negative length or offset"));
        }
        if !array.dictionary.is_null() {
            return Err(broken("a dictionary that its schema lacks"));
        }
        let (buffers, children) = match self.items {
            Items::Child => (2, 1),
            Items::Bytes => (3, 0),
        };
        if array.n_buffers != buffers {
            return Err(broken(match self.items {
                Items::Child => "lists with a number of buffers other than two",
                Items::Bytes => "texts or binary values with a number of buffers other than three",
            }));
        }
        if (schema.n_children, array.n_children) != (children, children) {
            return Err(broken(match self.items {
                Items::Child => "lists without their one child",
                Items::Bytes => "children although its type has none",
            }));
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
                TensorRef::from_raw_run(place.cast_mut().cast::<c_void>(), self.offsets, &[count])
            };
            let borrowed =
                borrowed.ok_or_else(|| broken("a buffer that wraps around the address space"))?;
            let _reading = Guard::acquire(&type_info.borrowed, object, &borrowed, Mode::Read)?;
            range = offsets_range(&borrowed)?.map_err(|fault| {
                PyBufferError::new_err(format!(
                    "{fault} of the Arrow array; the producer must fix that"
                ))
            })?;
            offsets = Some(numbers(data, self.offsets, first * width));
        }
        let (values, known_values) = match self.items {
            Items::Child => {
                let child = (schema.only_child(), array.only_child());
                let (Some(schema_of_items), Some(items)) = child else {
                    return Err(broken("a child that is NULL or not aligned"));
                };
                if schema_of_items.is_released() || items.is_released() {
                    return Err(broken("a child that was released"));
                }
                let span = Span { first: items.offset, count: range.end, unused: range.start };
                let values = Elements::within(object, schema_of_items, items, span, None)?;
                let known = values.known_source(items);
                (values, known)
            }
            Items::Bytes => {
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
        let known_offsets = offsets.as_ref().and_then(|parts| known_source(array, parts, &[count]));
        let dtype = self.offsets;
        Ok(Described { offsets, dtype, count, range, values, known_offsets, known_values })
    }
}

/// Keeps the array that a tensor of offsets owns, for the tensor of its values.
struct ArrayOf {
    _offsets: ArcTensor,
}

impl Described {
    /// The tensors over the array of this description.
    fn into_lists(self, array: Owned<ArrowArray>, options: &ImportOptions) -> PyResult<Lists> {
        let Self { offsets, dtype, count, range, values, known_offsets, known_values } = self;
        let Some(parts) = offsets else {
            // SAFETY: the elements are those of the array, which the owner releases when it is dropped.
            let values = unsafe { values.into_tensor(array, options.copy) }?;
            let offsets = Tensor::zeroed(dtype, [1]).map_err(to_py_err)?.into_read_only();
            return Ok(lists(offsets, range, values));
        };
        let extents = [count];
        if let (Some(source), Some(source_of_values)) = (known_offsets, known_values) {
            // SAFETY: the offsets lie within those of the source, which keeps them (Within of `keepalive.rs` in `dlbridge-pyo3`).
            let offsets =
                unsafe { Tensor::from_raw_parts(source, parts, &extents, None::<&[i64]>) };
            // SAFETY: the elements lie within those of their known source.
            let values = unsafe { values.into_tensor(source_of_values, options.copy) }?;
            return Ok(lists(offsets.map_err(to_py_err)?, range, values));
        }
        // SAFETY: Valid of `abi.rs`: the buffer has `count` offsets from there on, as `described` says, which nothing
        // writes until the array is released; the owner releases it when it is dropped.
        let offsets = unsafe { Tensor::from_raw_parts(array, parts, &extents, None::<&[i64]>) };
        let offsets = offsets.map_err(to_py_err)?.into_shared();
        let owner = ArrayOf { _offsets: offsets.clone() };
        // SAFETY: the elements are those of the array, which is not released before `offsets` is dropped.
        let values = unsafe { values.into_tensor(owner, options.copy) }?;
        Ok(lists(offsets.share(), range, values))
    }
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
        let mut scan = Scan { first: None, last: 0 };
        for begin in (0..len).step_by(BLOCK) {
            if begin > 0 && !go_on() {
                return Ok(None);
            }
            let end = len.min(begin + BLOCK);
            let block = offsets.slice(0, begin..end)?.to_copy()?;
            let fault = match block.dtype() {
                DataType::INT32 => scan.fault::<i32>(&block, begin)?,
                _ => scan.fault::<i64>(&block, begin)?,
            };
            if let Some(fault) = fault {
                return Ok(Some(Err(fault)));
            }
        }
        Ok(Some(Ok(scan.first.unwrap_or(0)..scan.last)))
    })
}

/// The offsets that were read.
struct Scan {
    first: Option<i64>,
    last: i64,
}

impl Scan {
    /// Reads further offsets, of which `begin` is the index of the first; returns what is wrong with them.
    fn fault<T: Element + Copy + PartialOrd + Into<i64>>(
        &mut self,
        offsets: &Tensor,
        begin: usize,
    ) -> Result<Option<String>> {
        let view = offsets.view::<T>()?;
        let offsets = view.as_slice().expect("a copy is contiguous");
        // Without an early exit, so that the compiler can vectorise it.
        let increase = offsets.windows(2).fold(true, |so_far, pair| so_far & (pair[0] <= pair[1]));
        if let (true, [first, .., last]) = (increase, offsets)
            && (*first).into() >= self.last
        {
            self.first.get_or_insert((*first).into());
            self.last = (*last).into();
            return Ok(None);
        }
        for (index, &offset) in (begin..).zip(offsets) {
            let offset = offset.into();
            if offset < self.last {
                let last = self.last;
                return Ok(Some(match self.first {
                    None => format!("the first offset is {offset}, below 0"),
                    Some(_) => {
                        format!("the offsets decrease from {last} to {offset} at index {index}")
                    }
                }));
            }
            self.first.get_or_insert(offset);
            self.last = offset;
        }
        Ok(None)
    }
}

/// A capsule over the schema and one over the array of lists. The caller has checked the offsets.
pub(crate) fn export_lists<'py>(
    py: Python<'py>,
    offsets: &ArcTensor,
    values: &ArcTensor,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let form = ListForm::of(offsets, values)?;
    let schema = capsule(py, form.schema())?;
    Ok((schema, capsule(py, form.array(offsets, values))?))
}

/// A capsule over the schema of the lists.
pub(crate) fn export_lists_schema<'py>(
    py: Python<'py>,
    offsets: &Tensor,
    values: &Tensor,
) -> PyResult<Bound<'py, PyCapsule>> {
    capsule(py, ListForm::of(offsets, values)?.schema())
}

/// The form of lists as an Arrow array.
struct ListForm<'a> {
    format: &'static CStr,
    /// The number of lists.
    length: i64,
    /// The format of the numbers in the values.
    numbers: &'static CStr,
    /// The extents of the values. All except the first are sizes of fixed-size lists.
    extents: &'a [i64],
}

impl<'a> ListForm<'a> {
    fn of(offsets: &Tensor, values: &'a Tensor) -> PyResult<Self> {
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
        let length = Form::of(offsets)?.length.saturating_sub(1);
        let numbers = Form::of(values)?.numbers;
        let extents = values.shape();
        if extents[1..].iter().any(|&extent| i32::try_from(extent).is_err()) {
            return Err(PyBufferError::new_err(
                "the fixed-size lists of an Arrow array must be shorter than 2^31",
            ));
        }
        Ok(Self { format, length, numbers, extents })
    }

    fn schema(&self) -> ArrowSchema {
        let numbers = schema(self.numbers.to_owned(), c"item", Vec::new(), None);
        let items = self.extents[1..].iter().rev().fold(numbers, |items, extent| {
            let format = CString::new(format!("+w:{extent}")).expect("digits");
            schema(format, c"item", Vec::new(), Some(items))
        });
        schema(self.format.to_owned(), c"", Vec::new(), Some(items))
    }

    fn array(&self, offsets: &ArcTensor, values: &ArcTensor) -> ArrowArray {
        // The number of elements at each level; their product fits because the tensor has a size, except for one
        // without elements, for which Arrow stores no numbers.
        let counts: Vec<_> = self
            .extents
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
        array(self.length, vec![ptr::null(), data(offsets)], Some(items), Some(root(offsets)))
    }
}
