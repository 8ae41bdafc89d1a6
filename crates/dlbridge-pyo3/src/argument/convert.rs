//! Conversions to a dtype that has all values of the source dtype.
//!
//! Functions with the parameter `A`, the accepted dtypes of an argument, are compiled with the arguments that use
//! them, for their dtypes only. The loops over pieces of a tensor are compiled once for all dtypes.

use std::cell::Cell;
use std::fmt::{self, Write};

use dlbridge::{DataType, Element, Result, Tensor, TensorRef, Unaligned};
use pyo3::PyResult;
use pyo3::exceptions::PyMemoryError;

use super::accepts::Accepts;
use crate::copies;
use crate::error::to_py_err;

/// An element that a dtype cannot hold.
pub(super) struct OutOfRange {
    pub(super) index: Vec<usize>,
    value: i128,
    dtype: String,
}

impl OutOfRange {
    pub(super) fn new(source: &TensorRef<'_>, nth: usize, value: i128, dtype: String) -> Self {
        let mut index = vec![0; source.ndim()];
        let mut rest = nth;
        for (place, &extent) in index.iter_mut().zip(source.shape()).rev() {
            *place = rest % extent as usize;
            rest /= extent as usize;
        }
        Self { index, value, dtype }
    }
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut place = String::new();
        for index in &self.index {
            write!(place, "[{index}]")?;
        }
        let space = if place.is_empty() { "" } else { " " };
        write!(
            f,
            "element{space}{place} is {}, which is out of range for {}",
            self.value, self.dtype
        )
    }
}

/// Returns true if an argument accepts elements of a dtype, or of any dtype.
pub(super) const fn accepts<A: Accepts>(dtype: DataType) -> bool {
    let dtypes = A::DTYPES;
    let mut next = 0;
    while next < dtypes.len() {
        let other = dtypes[next];
        let same_width = other.bits() == dtype.bits() && other.lanes() == dtype.lanes();
        if same_width && other.code().code() == dtype.code().code() {
            return true;
        }
        next += 1;
    }
    dtypes.is_empty()
}

/// A copy in C order in the first of the given dtypes that has all values of the tensor's dtype; `None` if none has.
pub(super) fn lossless<A: Accepts>(
    source: &Source<'_>,
    dtypes: &[DataType],
    _: &mut Option<OutOfRange>,
) -> PyResult<Option<Tensor>> {
    let from = source.dtype();
    for &dtype in dtypes {
        macro_rules! pairs {
            ($($from:ty => $($to:ty),+;)+) => {$($(
                if const { accepts::<A>(<$to>::DTYPE) } && (from, dtype) == (<$from>::DTYPE, <$to>::DTYPE) {
                    return converted(source, <$to as From<$from>>::from).map(Some);
                }
            )+)+};
        }
        macro_rules! from_bool {
            ($($way:ty => $($to:ty),+;)+) => {$($(
                if const { accepts::<A>(<$to>::DTYPE) } && (from, dtype) == (DataType::BOOL, <$to>::DTYPE) {
                    let convert = |value| <$to as From<$way>>::from(<$way as From<bool>>::from(value));
                    return converted_bool(source, convert).map(Some);
                }
            )+)+};
        }
        from_bool! {
            bool => u8, u16, u32, u64, i8, i16, i32, i64, f32;
            i32 => f64;
        }
        pairs! {
            u8 => u16, u32, u64, i16, i32, i64, f32, f64;
            u16 => u32, u64, i32, i64, f32, f64;
            u32 => u64, i64, f64;
            i8 => i16, i32, i64, f32, f64;
            i16 => i32, i64, f32, f64;
            i32 => i64, f64;
            f32 => f64;
        }
    }
    Ok(None)
}

/// For arguments that never copy, so that their extension does not link code for copies.
pub(super) fn never(
    _: &Source<'_>,
    _: &[DataType],
    _: &mut Option<OutOfRange>,
) -> PyResult<Option<Tensor>> {
    Ok(None)
}

/// Elements to convert.
pub(super) struct Source<'a> {
    pub(super) tensor: TensorRef<'a>,
    /// True if each number has the byte order that this machine does not use.
    pub(super) byte_swapped: bool,
}

impl Source<'_> {
    pub(super) fn dtype(&self) -> DataType {
        self.tensor.dtype()
    }
}

/// Elements per piece that is copied or checked before its conversion: as many as a core's caches hold.
pub(super) const PIECE: usize = 1 << 14;

/// Elements per piece whose bytes are reversed before the conversion: as many as the first-level cache holds.
const SWAPPED: usize = 1 << 12;

/// A copy in C order with each element converted.
pub(super) fn converted<S: Element, T: Element>(
    source: &Source<'_>,
    convert: impl Fn(S) -> T + Sync,
) -> PyResult<Tensor> {
    let mut elements = room::<T>(&source.tensor)?;
    in_pieces(source, size_of::<T>(), &mut |piece| {
        // `Unaligned` accepts any address, so one loop serves aligned and unaligned elements.
        let elements_of = piece.as_view::<Unaligned<S>>()?;
        elements_of.append_mapped(&mut elements, |value| convert(value.get()))
    })?;
    finished(&source.tensor, elements)
}

/// As `converted`, for booleans.
pub(super) fn converted_bool<T: Element>(
    source: &Source<'_>,
    convert: impl Fn(bool) -> T + Sync,
) -> PyResult<Tensor> {
    let mut elements = room::<T>(&source.tensor)?;
    in_pieces(source, size_of::<T>(), &mut |piece| {
        let all_bits = Cell::new(0);
        piece.view_bool_as_u8()?.append_mapped(&mut elements, |byte| {
            all_bits.set(all_bits.get() | byte);
            // Masking keeps the loop free of comparisons. If a byte is not 0 or 1, the elements are dropped below.
            convert(byte & 1 == 1)
        })?;
        if all_bits.get() > 1 { piece.view::<bool>().map(drop) } else { Ok(()) }
    })?;
    finished(&source.tensor, elements)
}

/// Converts a piece of a tensor.
type Convert<'a> = &'a mut (dyn FnMut(&TensorRef<'_>) -> Result<()> + Send);

/// Calls `convert` with all elements, in C order and this machine's byte order; `itemsize` is the size in bytes of a
/// source element.
fn in_pieces(source: &Source<'_>, itemsize: usize, convert: Convert<'_>) -> PyResult<()> {
    let tensor = &source.tensor;
    let copied = source.byte_swapped || is_copied_first(tensor);
    let most = match (copied, source.byte_swapped) {
        (false, _) => copies::BLOCK,
        (true, false) => PIECE,
        (true, true) => SWAPPED,
    };
    copies::detached(tensor.len().saturating_mul(itemsize), |go_on| {
        each_piece(tensor, most, &mut |piece| {
            match (copied, source.byte_swapped) {
                (false, _) => convert(piece)?,
                (true, false) => convert(&TensorRef::from(&piece.to_copy()?))?,
                (true, true) => convert(&TensorRef::from(&piece.to_byte_swapped()?))?,
            }
            Ok(go_on().then_some(true))
        })
    })?;
    Ok(())
}

/// Shorter rows cost more than their elements.
const SHORT: i64 = 8;

/// At most this many elements are converted without a copy first.
const FEW: usize = 64;

/// Returns true if the elements should be copied before their conversion. Loops that only copy are faster for short
/// rows, and where the next element in memory is not the next of the row.
fn is_copied_first(tensor: &TensorRef<'_>) -> bool {
    if tensor.len() <= FEW || tensor.is_c_contiguous() {
        return false;
    }
    let mut axes =
        tensor.shape().iter().zip(tensor.strides()).filter(|(extent, _)| **extent != 1).rev();
    let Some((&row, step)) = axes.next() else { return false };
    let nearer = |stride: i64| stride != 0 && stride.unsigned_abs() < step.unsigned_abs();
    row < SHORT || axes.any(|(_, &stride)| nearer(stride))
}

/// Calls a function with sub-tensors of at most `most` elements, in C order, while it returns `Some(true)`.
pub(super) fn each_piece(
    source: &TensorRef<'_>,
    most: usize,
    call: &mut dyn FnMut(&TensorRef<'_>) -> Result<Option<bool>>,
) -> Result<Option<bool>> {
    if source.is_empty() {
        return Ok(Some(true));
    }
    if source.len() <= most {
        return call(source);
    }
    let rows = source.shape()[0] as usize;
    let row = source.len() / rows;
    let each = (most / row).max(1);
    for begin in (0..rows).step_by(each) {
        let piece = match row > most {
            true => source.index_axis(0, begin)?,
            false => source.slice(0, begin..rows.min(begin + each))?,
        };
        match each_piece(&piece, most, call)? {
            Some(true) => {}
            end => return Ok(end),
        }
    }
    Ok(Some(true))
}

/// An empty vector with capacity for the elements of a tensor.
pub(super) fn room<T>(source: &TensorRef<'_>) -> PyResult<Vec<T>> {
    source.room().map_err(|_| {
        // The caller may have transposed the tensor, so its shape would be misleading.
        let bytes = source.len() as u128 * size_of::<T>() as u128;
        PyMemoryError::new_err(format!("no memory for a copy of {bytes} bytes; pass a slice"))
    })
}

/// A tensor of the same shape.
pub(super) fn finished<T: Element>(source: &TensorRef<'_>, elements: Vec<T>) -> PyResult<Tensor> {
    let shape: Vec<usize> = source.shape().iter().map(|&extent| extent as usize).collect();
    Tensor::from_parts(elements, shape).map_err(to_py_err)
}
