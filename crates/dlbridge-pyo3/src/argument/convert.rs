//! Elements of one dtype as those of another that has all their values.
//!
//! The functions with the parameter `A`, what an argument accepts, are compiled with the arguments that use them, and only for
//! the dtypes of the arguments. The loops over pieces of a tensor are compiled once for all dtypes.

use std::fmt::{self, Write};
use std::ops::Range;

use dlbridge::{DataType, Element, Result, Tensor, TensorRef};
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

/// Returns true if an argument accepts elements of a dtype, or of any.
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

/// A copy in C order with elements of the first of some dtypes that has all values of the tensor's own;
/// `None` if none of them has.
pub(super) fn lossless<A: Accepts>(
    source: &TensorRef<'_>,
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
        macro_rules! by_way {
            ($($from:ty, $way:ty => $to:ty;)+) => {$(
                if const { accepts::<A>(<$to>::DTYPE) } && (from, dtype) == (<$from>::DTYPE, <$to>::DTYPE) {
                    let first = <$way as From<$from>>::from;
                    return converted_by_way(source, first, <$to as From<$way>>::from).map(Some);
                }
            )+};
        }
        macro_rules! from_bool {
            ($($way:ty => $($to:ty),+;)+) => {$($(
                if const { accepts::<A>(<$to>::DTYPE) } && (from, dtype) == (DataType::BOOL, <$to>::DTYPE) {
                    let first = <$way as From<bool>>::from;
                    return converted_bool(source, first, <$to as From<$way>>::from).map(Some);
                }
            )+)+};
        }
        from_bool! {
            bool => u8, u16, u32, u64, i8, i16, i32, i64, f32;
            i32 => f64;
        }
        by_way! {
            u8, i32 => f64;
            i8, i32 => f64;
        }
        macro_rules! strided {
            ($($from:ty => $to:ty;)+) => {$(
                if const { accepts::<A>(<$to>::DTYPE) } && (from, dtype) == (<$from>::DTYPE, <$to>::DTYPE) {
                    return converted_strided(source, <$to as From<$from>>::from).map(Some);
                }
            )+};
        }
        strided! {
            i32 => f64;
            f32 => f64;
        }
        pairs! {
            u8 => u16, u32, u64, i16, i32, i64, f32;
            u16 => u32, u64, i32, i64, f32, f64;
            u32 => u64, i64, f64;
            i8 => i16, i32, i64, f32;
            i16 => i32, i64, f32, f64;
            i32 => i64;
        }
    }
    Ok(None)
}

/// For arguments that are not copied, so that their extension does not link code for copies.
pub(super) fn never(
    _: &TensorRef<'_>,
    _: &[DataType],
    _: &mut Option<OutOfRange>,
) -> PyResult<Option<Tensor>> {
    Ok(None)
}

/// Elements that are copied or checked and then converted: as many as the caches of a core hold.
pub(super) const PIECE: usize = 1 << 14;

/// Elements that become those of a third type at a time.
const STEP: usize = 64;

/// A copy in C order, each element converted.
pub(super) fn converted<S: Element, T: Element>(
    source: &TensorRef<'_>,
    convert: impl Fn(S) -> T + Sync,
) -> PyResult<Tensor> {
    of_elements(source, |from: &[S], to: &mut Vec<T>| {
        to.extend(from.iter().map(|&value| convert(value)));
    })
}

/// The same, with a loop over strides, for conversions that are frequent.
pub(super) fn converted_strided<S: Element, T: Element>(
    source: &TensorRef<'_>,
    convert: impl Fn(S) -> T + Sync + Copy,
) -> PyResult<Tensor> {
    // Rows that are long enough, because each has a cost.
    let long = source.shape().last() >= Some(&8) && !source.is_c_contiguous();
    if !long || source.view::<S>().is_err() {
        return converted(source, convert);
    }
    let mut elements = room::<T>(source)?;
    copies::detached(source.len() * size_of::<T>(), |go_on| {
        each_piece(source, copies::BLOCK, &mut |block| {
            block.view::<S>()?.append_mapped(&mut elements, convert)?;
            Ok(go_on().then_some(true))
        })
    })?;
    finished(source, elements)
}

/// The same by way of a third type. A processor converts several elements at once, but not from one byte to eight.
pub(super) fn converted_by_way<S: Element, M: Element + Default, T: Element>(
    source: &TensorRef<'_>,
    first: impl Fn(S) -> M + Sync,
    second: impl Fn(M) -> T + Sync,
) -> PyResult<Tensor> {
    of_elements(source, |from: &[S], to: &mut Vec<T>| in_steps(from, to, &first, &second))
}

/// The same for booleans.
pub(super) fn converted_bool<M: Element + Default, T: Element>(
    source: &TensorRef<'_>,
    first: impl Fn(bool) -> M + Sync,
    second: impl Fn(M) -> T + Sync,
) -> PyResult<Tensor> {
    // Of 0 and 1, as is checked; so a loop need not compare. Other threads may write other bytes after the check.
    let first = |byte: u8| first(byte & 1 == 1);
    let mut elements = room::<T>(source)?;
    in_pieces(source, (1, size_of::<T>()), &mut |piece, places| {
        let bytes = &piece.as_bytes()?[places];
        if bytes.iter().fold(0, |all, byte| all | byte) > 1 {
            piece.view::<bool>()?;
        }
        match size_of::<M>() {
            1 => elements.extend(bytes.iter().map(|&byte| second(first(byte)))),
            _ => in_steps(bytes, &mut elements, &first, &second),
        }
        Ok(())
    })?;
    finished(source, elements)
}

/// Converts elements by way of a third type.
#[inline(always)]
fn in_steps<S: Copy, M: Copy + Default, T>(
    from: &[S],
    to: &mut Vec<T>,
    first: &impl Fn(S) -> M,
    second: &impl Fn(M) -> T,
) {
    for from in from.chunks(STEP) {
        let mut between = [M::default(); STEP];
        for (between, &value) in between.iter_mut().zip(from) {
            *between = first(value);
        }
        to.extend(between[..from.len()].iter().map(|&value| second(value)));
    }
}

fn of_elements<S: Element, T: Element>(
    source: &TensorRef<'_>,
    convert: impl Fn(&[S], &mut Vec<T>) + Sync,
) -> PyResult<Tensor> {
    let mut elements = room::<T>(source)?;
    in_pieces(source, (align_of::<S>(), size_of::<T>()), &mut |piece, places| {
        let from = piece.view::<S>()?;
        convert(&from.as_slice().unwrap_or_default()[places], &mut elements);
        Ok(())
    })?;
    finished(source, elements)
}

/// Converts a piece of a tensor: the elements of a contiguous and aligned tensor at these places.
type Convert<'a> = &'a mut (dyn FnMut(&TensorRef<'_>, Range<usize>) -> Result<()> + Send);

/// Calls `convert` with all elements, in C order; `sizes` are the alignment of the elements, and the bytes of one that is
/// converted.
///
/// Elements at any address and with any strides are copied piece by piece, because a loop over strides is slower.
fn in_pieces(source: &TensorRef<'_>, sizes: (usize, usize), convert: Convert<'_>) -> PyResult<()> {
    let (alignment, itemsize) = sizes;
    let len = source.len();
    let in_place = is_in_place(source, alignment);
    copies::detached(len * itemsize, |go_on| {
        if in_place {
            for begin in (0..len).step_by(PIECE) {
                if begin > 0 && begin.is_multiple_of(copies::BLOCK) && !go_on() {
                    return Ok(None);
                }
                convert(source, begin..len.min(begin + PIECE))?;
            }
            return Ok(Some(true));
        }
        each_piece(source, PIECE, &mut |piece| {
            let own = piece.to_copy()?;
            convert(&TensorRef::from(&own), 0..own.len())?;
            Ok(go_on().then_some(true))
        })
    })?;
    Ok(())
}

/// Calls a function with sub-tensors of at most `most` elements, in C order, as long as it returns `Some(true)`.
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

/// Returns true if the elements can be read as a slice.
pub(super) fn is_in_place(source: &TensorRef<'_>, alignment: usize) -> bool {
    let address = (source.data().addr() as u64).wrapping_add(source.byte_offset());
    source.is_c_contiguous() && address.is_multiple_of(alignment as u64)
}

/// Room for the elements of a tensor.
pub(super) fn room<T>(source: &TensorRef<'_>) -> PyResult<Vec<T>> {
    let mut elements = Vec::new();
    match elements.try_reserve_exact(source.len()) {
        Ok(()) => Ok(elements),
        Err(_) => Err(PyMemoryError::new_err(format!(
            "no memory for a tensor of shape {:?}",
            source.shape()
        ))),
    }
}

/// A tensor of the same shape.
pub(super) fn finished<T: Element>(source: &TensorRef<'_>, elements: Vec<T>) -> PyResult<Tensor> {
    let shape: Vec<usize> = source.shape().iter().map(|&extent| extent as usize).collect();
    Tensor::from_parts(elements, shape).map_err(to_py_err)
}
