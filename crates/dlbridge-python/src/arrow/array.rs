//! The elements of one array, as a tensor.

use std::ffi::c_void;

use dlbridge::{Access, ArcTensor, CopyReason, DataType, RawParts, Tensor};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::abi::{ArrowArray, ArrowSchema, broken, child_pair};
use super::elements::{Bits, filled, nulls, room, values, without_nulls};
use super::export;
use super::format::{Level, Shape, is_fixed_shape, not_read};
use crate::frameworks::pandas::PANDAS;
use crate::frameworks::{advice, is_of};
use crate::memory::{MAX_NDIM, normalized, with_dtype};
use dlbridge_pyo3::layout::{is_within, root};
use dlbridge_pyo3::protocol::time::Times;
use dlbridge_pyo3::protocol::type_info::{self, Known};
use dlbridge_pyo3::python::error::to_py_err;

pub(super) struct Elements {
    shape: Shape,
    data: Data,
}

enum Data {
    Numbers(RawParts),
    /// A copy in one dimension: booleans in a byte each, or times with `NaT` for nulls.
    Copy(Tensor, CopyReason),
}

/// A range of the elements of an array, counted from the start of its buffers.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) first: i64,
    pub(super) count: i64,
    /// The number of elements at the start that may be null, because nothing reads them.
    pub(super) unused: i64,
}

/// More bytes than a process can have: 64-bit addresses use at most 57 bits.
pub(super) const MOST: i64 = if usize::BITS == 64 { 1 << 57 } else { i32::MAX as i64 };

impl Elements {
    /// The elements of an array in a range: descends its levels to the numbers.
    ///
    /// - **Range.** At each level, `first + count` is at most `offset + length` of the array: checked here for the first
    ///   level, and where the loop descends to a child. So its buffers have `count` elements from `first` on (Valid of
    ///   `abi.rs`).
    pub(super) fn of(
        object: &Bound<'_, PyAny>,
        schema: &ArrowSchema,
        array: &ArrowArray,
        span: Span,
        times: Option<&Times>,
    ) -> PyResult<Self> {
        let with =
            |extents, data| Ok(Self { shape: Shape::of(object.py(), schema, extents)?, data });
        let (mut schema, mut array) = (schema, array);
        let Span { mut first, mut count, mut unused } = span;
        let mut shape = vec![count];
        // Sums that saturate are refused as too large below.
        if first.saturating_add(count) > array.offset.saturating_add(array.length) {
            return Err(broken("fewer items than its lists need"));
        }
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
            let nulls = unsafe { nulls(object, array, first + unused, count - unused) }?;
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
                        return with(shape, Data::Copy(filled, CopyReason::Nulls));
                    }
                    return with(shape, Data::Numbers(numbers(data, dtype, first * bytes)));
                }
                Level::Bits => {
                    let data = values(array, count)?;
                    // SAFETY: Range: the buffer has a bit for each element, and is NULL only if there are none.
                    let (bits, _reading) = unsafe { Bits::borrow(object, data, first, count) }?;
                    let Some(room) = room else { unreachable!("there is room for booleans") };
                    let values = filled(room, |nth| u8::from(bits.get(nth)))?;
                    let values = with_dtype(values, DataType::BOOL, &[count])?;
                    return with(shape, Data::Copy(values, CopyReason::BitPacked));
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
            (schema, array) = child_pair(schema, array, 0)?;
            if is_fixed_shape(schema)? {
                return Err(not_read("lists of tensors of a fixed shape"));
            }
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
            // At most `count` of the level above, whose product with the size of a list was counted.
            unused *= shape[shape.len() - 1];
        }
    }

    /// The bytes at the start of a buffer of an array.
    ///
    /// # Safety
    /// The buffer has `count` bytes, or is NULL if that is 0 (Valid of `abi.rs`).
    pub(super) unsafe fn bytes(data: *const c_void, count: i64) -> Self {
        let parts = numbers(data, DataType::UINT8, 0);
        Self { shape: Shape::plain(vec![count]), data: Data::Numbers(parts) }
    }

    /// The dlbridge tensor that keeps these elements of an array, if dlbridge made the array.
    pub(super) fn known_source(&self, array: &ArrowArray) -> Option<ArcTensor> {
        match &self.data {
            Data::Numbers(parts) => known_source(array, parts, &self.shape.extents),
            Data::Copy(..) => None,
        }
    }

    /// The tensor, and why its elements were copied if they were.
    ///
    /// # Safety
    /// The array of the elements is not released before the owner is dropped, or the owner is their
    /// [`known_source`](Self::known_source).
    pub(super) unsafe fn into_tensor<O: Send + 'static>(
        self,
        owner: O,
        copy: Option<bool>,
    ) -> PyResult<(Tensor, Option<CopyReason>)> {
        let Self { shape, data } = self;
        let (tensor, reason) = match data {
            Data::Numbers(parts) => {
                // SAFETY: Range and Valid: the buffer has as many numbers as the extents need, which nothing writes
                // until the array is released; the caller guarantees that the owner keeps them.
                let imported =
                    unsafe { Tensor::from_raw_parts(owner, parts, &shape.extents, None::<&[i64]>) };
                normalized(imported.map_err(to_py_err)?, copy)?
            }
            Data::Copy(_, CopyReason::BitPacked) if copy == Some(false) => {
                return Err(PyBufferError::new_err(
                    "Arrow packs booleans eight to a byte, and unpacking needs a copy; leave out copy=False, or cast \
                     them to uint8 first",
                ));
            }
            Data::Copy(values, reason) => {
                let extents: Vec<_> = shape.extents.iter().map(|&extent| extent as usize).collect();
                let tensor = values.reshape(extents).map_err(to_py_err)?;
                (tensor, Some(reason))
            }
        };
        let tensor = match shape.permutation {
            Some(order) => tensor.permute(order).map_err(to_py_err)?,
            None => tensor,
        };
        Ok((tensor, reason))
    }
}

/// Numbers that begin some bytes after the start of a buffer.
pub(super) fn numbers(data: *const c_void, dtype: DataType, bytes: i64) -> RawParts {
    RawParts {
        byte_offset: if data.is_null() { 0 } else { bytes as u64 },
        access: Access::ReadOnly,
        ..RawParts::new(data.cast_mut(), dtype)
    }
}

fn has_nulls(object: &Bound<'_, PyAny>, nulls: i64, booleans: bool) -> PyErr {
    let noun = if nulls == 1 { "null" } else { "nulls" };
    let is_pandas = |type_info: Known| is_of(&type_info.checks, &PANDAS);
    let text = match type_info::of(object).is_ok_and(is_pandas) {
        true => advice(object.py(), "nulls", (object, booleans)),
        false => Ok(None),
    };
    let text = match text {
        Ok(text) => text,
        Err(error) => return error,
    };
    let text = text.as_deref().unwrap_or(
        "which a tensor cannot express; fill or drop them first, for example with fill_null, which pyarrow and polars have",
    );
    PyBufferError::new_err(format!("the Arrow array has {nulls} {noun}, {text}"))
}

/// The dlbridge tensor that keeps some elements of an array, if dlbridge made the array.
pub(super) fn known_source(
    array: &ArrowArray,
    parts: &RawParts,
    extents: &[i64],
) -> Option<ArcTensor> {
    let tensor = export::tensor_of(array)?;
    let count =
        extents.iter().try_fold(1_usize, |n, &e| n.checked_mul(usize::try_from(e).ok()?))?;
    let first = parts.data.addr().checked_add(usize::try_from(parts.byte_offset).ok()?)?;
    let end = first.checked_add(count.checked_mul(parts.dtype.itemsize())?)?;
    is_within(&(first..end), tensor).then(|| root(tensor))
}
