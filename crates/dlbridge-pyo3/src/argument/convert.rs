//! Elements of one dtype as those of another that has all their values.

use dlbridge::{DataType, Element, Error, Tensor, TensorRef, TensorView};
use pyo3::PyResult;
use pyo3::exceptions::PyMemoryError;

use super::checked::OutOfRange;
use crate::copies;
use crate::error::to_py_err;

/// A copy in C order with elements of the first of some dtypes that has all values of the tensor's own;
/// `None` if none of them has.
pub(super) fn lossless(
    source: &TensorRef<'_>,
    dtypes: &[DataType],
    _: &mut Option<OutOfRange>,
) -> PyResult<Option<Tensor>> {
    let from = source.dtype();
    for &dtype in dtypes {
        macro_rules! pairs {
            ($($from:ty => $($to:ty),+;)+) => {$($(
                if (from, dtype) == (<$from>::DTYPE, <$to>::DTYPE) {
                    return converted(source, |value: $from| <$to>::from(value)).map(Some);
                }
            )+)+};
        }
        macro_rules! by_way {
            ($($from:ty, $way:ty => $to:ty;)+) => {$(
                if (from, dtype) == (<$from>::DTYPE, <$to>::DTYPE) {
                    let first = |value: $from| <$way>::from(value);
                    return converted_by_way(source, first, <$to>::from).map(Some);
                }
            )+};
        }
        macro_rules! from_bool {
            ($($way:ty => $($to:ty),+;)+) => {$($(
                if (from, dtype) == (DataType::BOOL, <$to>::DTYPE) {
                    return converted_bool(source, <$way>::from, <$to>::from).map(Some);
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
        pairs! {
            u8 => u16, u32, u64, i16, i32, i64, f32;
            u16 => u32, u64, i32, i64, f32, f64;
            u32 => u64, i64, f64;
            i8 => i16, i32, i64, f32;
            i16 => i32, i64, f32, f64;
            i32 => i64, f64;
            f32 => f64;
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
    let convert = |from: &[S], to: &mut Vec<T>| to.extend(from.iter().map(|&value| convert(value)));
    of_elements(source, convert)
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
    // Of 0 and 1, as was checked; so a loop need not compare.
    let first = |byte: u8| first(byte & 1 == 1);
    let convert = |from: &[u8], to: &mut Vec<T>| in_steps(from, to, &first, &second);
    if let Ok(bytes) = source.as_bytes() {
        let checked = |from: &[u8], to: &mut Vec<T>| {
            let is_valid = are_booleans(from);
            if is_valid {
                convert(from, to);
            }
            is_valid
        };
        if let Some(copy) = in_blocks(source, bytes, checked)? {
            return Ok(copy);
        }
    }
    // Copied first, because other threads could change them after they were checked, and so that an error names an element.
    in_pieces(source, booleans, convert)
}

/// The bytes of booleans, if they are 0 and 1.
fn booleans(own: &Tensor) -> Result<TensorView<'_, u8>, Error> {
    let bytes = own.view_bool_as_u8()?;
    if !are_booleans(bytes.as_slice().unwrap_or_default()) {
        own.view::<bool>()?;
    }
    Ok(bytes)
}

fn are_booleans(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |all, byte| all | byte) <= 1
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
    let view = source.view::<S>().ok();
    if let Some(elements) = view.as_ref().and_then(TensorView::as_slice) {
        let convert = |from: &[S], to: &mut Vec<T>| {
            convert(from, to);
            true
        };
        if let Some(copy) = in_blocks(source, elements, convert)? {
            return Ok(copy);
        }
    }
    in_pieces(source, |own| own.view::<S>(), convert)
}

/// The elements of a contiguous tensor, each block converted; `None` if one cannot be.
fn in_blocks<S: Element, T: Element>(
    source: &TensorRef<'_>,
    from: &[S],
    convert: impl Fn(&[S], &mut Vec<T>) -> bool + Sync,
) -> PyResult<Option<Tensor>> {
    let (shape, mut elements) = new(source)?;
    let elements = copies::detached(source.len() * size_of::<T>(), |go_on| {
        for block in from.chunks(copies::BLOCK) {
            if !elements.is_empty() && !go_on() {
                return Ok(None);
            }
            for piece in block.chunks(PIECE) {
                if !convert(piece, &mut elements) {
                    return Ok(Some(None));
                }
            }
        }
        Ok(Some(Some(elements)))
    })?;
    elements.map(|elements| Tensor::from_parts(elements, shape).map_err(to_py_err)).transpose()
}

/// Elements at any address and with any strides: they are copied piece by piece, because a loop over strides is slower.
fn in_pieces<S: Element, T: Element>(
    source: &TensorRef<'_>,
    view: impl Fn(&Tensor) -> Result<TensorView<'_, S>, Error> + Sync,
    convert: impl Fn(&[S], &mut Vec<T>) + Sync,
) -> PyResult<Tensor> {
    let (shape, mut elements) = new(source)?;
    let elements = copies::detached(source.len() * size_of::<T>(), |go_on| {
        let rows = shape.first().copied().unwrap_or(1);
        let piece = (PIECE / (source.len() / rows.max(1)).max(1)).max(1);
        for start in (0..rows).step_by(piece) {
            if start > 0 && !go_on() {
                return Ok(None);
            }
            let own = match shape.is_empty() {
                true => source.to_copy()?,
                false => source.slice(0, start..rows.min(start + piece))?.to_copy()?,
            };
            convert(view(&own)?.as_slice().unwrap_or_default(), &mut elements);
        }
        Ok(Some(elements))
    })?;
    Tensor::from_parts(elements, shape).map_err(to_py_err)
}

/// The extents of a tensor, and room for its elements.
pub(super) fn new<T>(source: &TensorRef<'_>) -> PyResult<(Vec<usize>, Vec<T>)> {
    let shape: Vec<usize> = source.shape().iter().map(|&extent| extent as usize).collect();
    let mut elements = Vec::new();
    match elements.try_reserve_exact(source.len()) {
        Ok(()) => Ok((shape, elements)),
        Err(_) => Err(PyMemoryError::new_err(format!("no memory for a tensor of shape {shape:?}"))),
    }
}
