//! Elements of one dtype as those of another that has all their values.

use dlbridge::{DataType, Element, Error, Tensor, TensorRef, TensorView};
use pyo3::PyResult;
use pyo3::exceptions::PyMemoryError;

use crate::copies;
use crate::error::to_py_err;

/// A copy in C order with elements of the first of some dtypes that has all values of the tensor's own;
/// `None` if none of them has.
pub(super) fn lossless(source: &TensorRef<'_>, dtypes: &[DataType]) -> PyResult<Option<Tensor>> {
    macro_rules! pairs {
        ($($from:ty => $($to:ty),+;)+) => {
            for &dtype in dtypes {
                $($(
                    if (source.dtype(), dtype) == (<$from>::DTYPE, <$to>::DTYPE) {
                        return converted(source, |value: $from| <$to>::from(value)).map(Some);
                    }
                )+)+
            }
        };
    }
    macro_rules! from_bool {
        ($($to:ty),+) => {
            for &dtype in dtypes.iter().filter(|_| source.dtype() == DataType::BOOL) {
                $(if dtype == <$to>::DTYPE {
                    return converted_bool(source, |value| <$to>::from(value)).map(Some);
                })+
            }
        };
    }
    from_bool!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);
    pairs! {
        u8 => u16, u32, u64, i16, i32, i64, f32, f64;
        u16 => u32, u64, i32, i64, f32, f64;
        u32 => u64, i64, f64;
        i8 => i16, i32, i64, f32, f64;
        i16 => i32, i64, f32, f64;
        i32 => i64, f64;
        f32 => f64;
    }
    Ok(None)
}

/// For arguments that are not copied, so that their extension does not link code for copies.
pub(super) fn never(_: &TensorRef<'_>, _: &[DataType]) -> PyResult<Option<Tensor>> {
    Ok(None)
}

/// Elements that are converted in one piece, if they are not contiguous: as many as the caches of a core hold.
const PIECE: usize = 1 << 14;

/// A copy in C order, each element converted.
pub(super) fn converted<S: Element, T: Element>(
    source: &TensorRef<'_>,
    convert: impl Fn(S) -> T + Sync,
) -> PyResult<Tensor> {
    let view = source.view::<S>().ok();
    let contiguous = view.as_ref().and_then(TensorView::as_slice);
    in_pieces(source, contiguous, Tensor::view::<S>, convert)
}

/// The same for booleans, which are copied first: other threads could change them after they were checked.
pub(super) fn converted_bool<T: Element>(
    source: &TensorRef<'_>,
    convert: impl Fn(bool) -> T + Sync,
) -> PyResult<Tensor> {
    fn checked(own: &Tensor) -> Result<TensorView<'_, u8>, Error> {
        let bytes = own.view_bool_as_u8()?;
        if bytes.as_slice().unwrap_or_default().iter().fold(0, |all, byte| all | byte) > 1 {
            own.view::<bool>()?;
        }
        Ok(bytes)
    }
    in_pieces(source, None, checked, |byte| convert(byte != 0))
}

fn in_pieces<S: Element, T: Element>(
    source: &TensorRef<'_>,
    contiguous: Option<&[S]>,
    view: fn(&Tensor) -> Result<TensorView<'_, S>, Error>,
    convert: impl Fn(S) -> T + Sync,
) -> PyResult<Tensor> {
    let shape: Vec<usize> = source.shape().iter().map(|&extent| extent as usize).collect();
    let mut elements: Vec<T> = Vec::new();
    if elements.try_reserve_exact(source.len()).is_err() {
        return Err(PyMemoryError::new_err(format!("no memory for a tensor of shape {shape:?}")));
    }
    let elements = copies::detached(source.len() * size_of::<T>(), |go_on| {
        if let Some(from) = contiguous {
            for block in from.chunks(copies::BLOCK) {
                if !elements.is_empty() && !go_on() {
                    return Ok(None);
                }
                elements.extend(block.iter().map(|&value| convert(value)));
            }
            return Ok(Some(elements));
        }
        // Other elements, at any address and with any strides, are copied piece by piece: a loop over strides is slower.
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
            let from = view(&own)?;
            elements
                .extend(from.as_slice().unwrap_or_default().iter().map(|&value| convert(value)));
        }
        Ok(Some(elements))
    })?;
    Tensor::from_parts(elements, shape).map_err(to_py_err)
}
