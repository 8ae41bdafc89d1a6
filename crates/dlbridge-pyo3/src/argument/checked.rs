//! Checked conversions: integers to another integer type that holds their values (`AllowCheckedCast`), and times to
//! another unit.
//!
//! Both convert through `i64`, which needs one loop per type instead of one per pair of types.

use dlbridge::{
    DataType, DataTypeCode as Code, Datetime64, Element, Result, Seconds, Tensor, TensorRef,
};
use pyo3::PyResult;

use super::accepts::Accepts;
use super::cast::{self, Cast, is_safe};
use super::convert::{self, OutOfRange, PIECE, Source, accepts};
use crate::copies;
use crate::protocol::time::{Chosen, Scale};

/// Checks integers, and converts other elements only without loss.
pub(super) fn or_lossless<A: Accepts>(
    source: &Source<'_>,
    dtypes: &[DataType],
    misfit: &mut Option<OutOfRange>,
) -> PyResult<Option<Tensor>> {
    checked::<A>(source, dtypes, misfit, convert::lossless::<A>)
}

/// Checks integers, and converts other elements by the rule `safe`.
pub(super) fn or_safe<A: Accepts>(
    source: &Source<'_>,
    dtypes: &[DataType],
    misfit: &mut Option<OutOfRange>,
) -> PyResult<Option<Tensor>> {
    checked::<A>(source, dtypes, misfit, cast::safe::<A>)
}

/// Checks integers, and converts other elements by the rule `same_kind`.
pub(super) fn or_same_kind<A: Accepts>(
    source: &Source<'_>,
    dtypes: &[DataType],
    misfit: &mut Option<OutOfRange>,
) -> PyResult<Option<Tensor>> {
    checked::<A>(source, dtypes, misfit, cast::same_kind::<A>)
}

fn is_integer(dtype: DataType) -> bool {
    matches!(dtype.code(), Code::INT | Code::UINT)
}

fn checked<A: Accepts>(
    source: &Source<'_>,
    dtypes: &[DataType],
    misfit: &mut Option<OutOfRange>,
    others: Cast,
) -> PyResult<Option<Tensor>> {
    let from = source.dtype();
    let to = dtypes.iter().copied().find(|&dtype| is_integer(from) && is_integer(dtype));
    let Some(to) = to else { return others(source, dtypes, misfit) };
    // A dtype that holds all values needs no check.
    if dtypes.iter().any(|&dtype| is_safe(from, dtype))
        && let Some(copy) = others(source, dtypes, misfit)?
    {
        return Ok(Some(copy));
    }
    integers::<A>(source, to, misfit)
}

/// Converts the integers of a tensor; `None` if one of them does not fit, or for unsupported dtypes.
fn integers<A: Accepts>(
    source: &Source<'_>,
    to: DataType,
    misfit: &mut Option<OutOfRange>,
) -> PyResult<Option<Tensor>> {
    macro_rules! read {
        ($($type:ty),+) => {
            match source.dtype() {
                $(<$type>::DTYPE => Some(read::<$type> as Read),)+
                _ => None,
            }
        };
    }
    macro_rules! write {
        ($($type:ty),+) => {
            match to {
                $(_ if const { accepts::<A>(<$type>::DTYPE) } && to == <$type>::DTYPE => {
                    Some(written::<$type> as Written)
                })+
                _ => None,
            }
        };
    }
    let read = read!(i8, i16, i32, i64, u8, u16, u32, u64);
    let write = write!(i8, i16, i32, i64, u8, u16, u32, u64);
    let (Some(read), Some(write)) = (read, write) else { return Ok(None) };
    let unsigned = |dtype: DataType| dtype == DataType::UINT64;
    // As `i64`, a u64 above `i64::MAX` is negative.
    let (min, max) = match (to.code(), to.bits()) {
        _ if unsigned(source.dtype()) && unsigned(to) => (i64::MIN, i64::MAX),
        (Code::UINT, 64) => (0, i64::MAX),
        (Code::UINT, bits) => (0, (1 << bits) - 1),
        (_, bits) => {
            let max = i64::MAX >> (64 - u32::from(bits));
            let min = if unsigned(source.dtype()) { 0 } else { -max - 1 };
            (min, max)
        }
    };
    let check = move |elements: &mut [i64]| {
        let (least, most) = elements
            .iter()
            .fold((i64::MAX, i64::MIN), |(least, most), &v| (least.min(v), most.max(v)));
        match least >= min && most <= max {
            true => None,
            false => elements.iter().position(|v| !(min..=max).contains(v)),
        }
    };
    let name = || to.to_string();
    made(source, read, &check, write, unsigned(source.dtype()), &name, misfit)
}

/// Converts times of another unit; `Err` with an element that does not fit.
pub(super) type Rescale = fn(&Tensor, &Chosen) -> PyResult<std::result::Result<Tensor, OutOfRange>>;

/// For arguments that never convert the unit, so that their extension does not link that code.
pub(super) fn never(_: &Tensor, _: &Chosen) -> PyResult<std::result::Result<Tensor, OutOfRange>> {
    unreachable!("the check accepts only the units of the argument")
}

/// Converts times to another unit. A longer unit rounds down, as in NumPy.
pub(super) fn rescaled(
    times: &Tensor,
    chosen: &Chosen,
) -> PyResult<std::result::Result<Tensor, OutOfRange>> {
    let Scale { multiplier, divisor } = chosen.scale;
    let scale = move |elements: &mut [i64]| {
        for (nth, count) in elements.iter_mut().enumerate() {
            if *count != i64::MIN {
                // NaT is the smallest integer.
                let scaled = count.checked_mul(multiplier).filter(|&scaled| scaled != i64::MIN);
                let Some(scaled) = scaled else { return Some(nth) };
                *count = scaled.div_euclid(divisor);
            }
        }
        None
    };
    let source = Source { tensor: TensorRef::from(times), byte_swapped: false };
    let mut misfit = None;
    let (read, name) = (read::<Datetime64<Seconds>>, || chosen.name.to_owned());
    let copy =
        made(&source, read, &scale, written::<Datetime64<Seconds>>, false, &name, &mut misfit)?;
    Ok(copy.ok_or_else(|| misfit.expect("without a copy, `misfit` has the element")))
}

/// An element that is converted through `i64`.
trait ByI64: Element {
    fn to_i64(self) -> i64;
    fn from_i64(value: i64) -> Self;
}

macro_rules! by_i64 {
    ($($type:ty),+) => {$(
        impl ByI64 for $type {
            #[inline(always)]
            fn to_i64(self) -> i64 {
                self as i64
            }

            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                value as Self
            }
        }
    )+};
}

by_i64!(i8, i16, i32, i64, u8, u16, u32, u64);

impl ByI64 for Datetime64<Seconds> {
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self.count().unwrap_or(i64::MIN)
    }

    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        Self::new(value)
    }
}

/// Reads the elements of a contiguous and aligned tensor.
type Read = fn(&TensorRef<'_>, &mut [i64]) -> Result<()>;

fn read<S: ByI64>(source: &TensorRef<'_>, into: &mut [i64]) -> Result<()> {
    let view = source.view::<S>()?;
    for (into, value) in into.iter_mut().zip(view.as_slice().unwrap_or_default()) {
        *into = value.to_i64();
    }
    Ok(())
}

/// The work on the elements of one piece; `Some` with the index of an element that does not fit.
type Work<'a> = &'a (dyn Fn(&mut [i64]) -> Option<usize> + Sync);

/// Makes a tensor from elements that arrive in pieces.
type Written = fn(&TensorRef<'_>, &mut Pieces<'_>) -> PyResult<Option<Tensor>>;

/// Calls its argument with one piece of elements after the other. `None` means stop; `Some(false)` means that an
/// element does not fit.
type Pieces<'a> =
    dyn FnMut(&mut dyn FnMut(&[i64]), &mut dyn FnMut() -> bool) -> Result<Option<bool>> + Send + 'a;

fn written<T: ByI64>(source: &TensorRef<'_>, pieces: &mut Pieces<'_>) -> PyResult<Option<Tensor>> {
    let mut elements = convert::room::<T>(source)?;
    let fit = copies::detached(source.len() * size_of::<T>(), |go_on| {
        pieces(&mut |piece| elements.extend(piece.iter().map(|&v| T::from_i64(v))), go_on)
    })?;
    match fit {
        true => convert::finished(source, elements).map(Some),
        false => Ok(None),
    }
}

/// A copy in C order, which is read, converted and written piece by piece.
fn made(
    source: &Source<'_>,
    read: Read,
    work: Work<'_>,
    write: Written,
    unsigned: bool,
    name: &dyn Fn() -> String,
    misfit: &mut Option<OutOfRange>,
) -> PyResult<Option<Tensor>> {
    let (tensor, mut found) = (&source.tensor, None);
    let mut pieces = |put: &mut dyn FnMut(&[i64]), go_on: &mut dyn FnMut() -> bool| {
        let mut buffer = vec![0; PIECE.min(tensor.len())];
        let mut begin = 0;
        convert::each_piece(tensor, PIECE, &mut |piece| {
            let own;
            let piece = match is_in_place(piece) && !source.byte_swapped {
                true => piece,
                false => {
                    own = match source.byte_swapped {
                        true => piece.to_byte_swapped()?,
                        false => piece.to_copy()?,
                    };
                    &TensorRef::from(&own)
                }
            };
            let elements = &mut buffer[..piece.len()];
            read(piece, elements)?;
            if let Some(nth) = work(elements) {
                // The work changed the piece: read the element again for the message.
                read(piece, elements)?;
                found = Some((begin + nth, elements[nth]));
                return Ok(Some(false));
            }
            put(elements);
            if begin / copies::BLOCK != (begin + elements.len()) / copies::BLOCK && !go_on() {
                return Ok(None);
            }
            begin += elements.len();
            Ok(Some(true))
        })
    };
    let copy = write(tensor, &mut pieces)?;
    if let Some((nth, value)) = found {
        let value = if unsigned { i128::from(value as u64) } else { i128::from(value) };
        *misfit = Some(OutOfRange::new(tensor, nth, value, name()));
    }
    Ok(copy)
}

/// Returns true if the elements can be read as a slice of integers.
fn is_in_place(source: &TensorRef<'_>) -> bool {
    let address = (source.data().addr() as u64).wrapping_add(source.byte_offset());
    source.is_c_contiguous() && address.is_multiple_of(source.dtype().itemsize() as u64)
}
