//! Conversions to another dtype: `AllowCopy`, `AllowSafeCast`, `AllowCast` and `AllowCheckedCast`.
//!
//! The rules are here, and NumPy converts the elements, except in two cases. Loops here convert to float64, the most
//! frequent target, in half of the time that a call of NumPy takes; and NumPy lacks bfloat16.

use std::cell::Cell;
use std::fmt;

use dlbridge::bits::Bfloat16;
use dlbridge::{
    DataType, DataTypeCode as Code, Datetime64, Element, Seconds, Tensor, TensorRef, Unaligned,
};
use pyo3::prelude::*;

use super::spec::{ArgumentSpec, Casting};
use crate::copies;
use crate::error::to_py_err;
use crate::numpy::api::{self, NumpyApi};
use crate::numpy::array::NumpyArray;
use crate::protocol::time::{Chosen, Scale};

/// Elements to convert.
pub(super) struct Source<'a> {
    pub(super) tensor: TensorRef<'a>,
    /// True if each number has the byte order that this machine does not use.
    pub(super) byte_swapped: bool,
}

/// An element that a dtype cannot hold.
pub(super) struct OutOfRange {
    pub(super) index: Vec<usize>,
    value: String,
    dtype: String,
}

impl OutOfRange {
    pub(super) fn new(shape: &[i64], nth: usize, value: String, dtype: String) -> Self {
        let mut index = vec![0; shape.len()];
        let mut rest = nth;
        for (place, &extent) in index.iter_mut().zip(shape).rev() {
            *place = rest % extent as usize;
            rest /= extent as usize;
        }
        Self { index, value, dtype }
    }
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("element")?;
        for (nth, index) in self.index.iter().enumerate() {
            write!(f, "{}[{index}]", if nth == 0 { " " } else { "" })?;
        }
        write!(f, " is {}, which is out of range for {}", self.value, self.dtype)
    }
}

/// Makes a copy in C order with elements of the first given dtype that loses nothing, or else of the first that the rule
/// allows; `None` if it allows none. An element that the chosen dtype cannot hold is stored in the last argument.
pub(super) fn by_rule(
    source: &Source<'_>,
    rule: &ArgumentSpec,
    dtypes: &[DataType],
    misfit: &mut Option<OutOfRange>,
) -> PyResult<Option<Tensor>> {
    let from = source.tensor.dtype();
    let first = |allows: fn(DataType, DataType) -> bool| {
        let converts = |to| is_converted(from) && is_converted(to) && allows(from, to);
        dtypes.iter().copied().find(|&to| converts(to))
    };
    let exact = if rule.casting.is_none() { is_lossless } else { is_safe };
    let checked = |from, to| is_integer(from) && is_integer(to);
    let to = match first(exact) {
        None if rule.check_integers
            && let Some(to) = first(checked) =>
        {
            return integers(source, to, misfit);
        }
        None if rule.casting == Some(Casting::SameKind) => first(is_same_kind),
        to => to,
    };
    to.map(|to| converted(source, to)).transpose()
}

/// Returns true for dtypes that are converted from and to each other.
pub(super) fn is_converted(dtype: DataType) -> bool {
    api::has_dtype(dtype) || dtype == DataType::BFLOAT16
}

pub(super) fn is_integer(dtype: DataType) -> bool {
    matches!(dtype.code(), Code::INT | Code::UINT)
}

/// The rank of a kind in NumPy's conversion order.
fn rank(dtype: DataType) -> u8 {
    match dtype.code() {
        Code::BOOL => 0,
        Code::UINT => 1,
        Code::INT => 2,
        Code::FLOAT | Code::BFLOAT => 3,
        _ => 4,
    }
}

/// Returns true if NumPy's rule `same_kind` allows the cast.
fn is_same_kind(from: DataType, to: DataType) -> bool {
    // ml_dtypes registers no cast from bfloat16 to float16, which has fewer exponents.
    rank(from) <= rank(to) && (from.code(), to) != (Code::BFLOAT, DataType::FLOAT16)
}

/// Returns true if NumPy's rule `safe` allows the cast.
fn is_safe(from: DataType, to: DataType) -> bool {
    // For a complex number, the bits of one component.
    let bits = |dtype: DataType| match dtype.code() {
        Code::COMPLEX => dtype.bits() / 2,
        _ => dtype.bits(),
    };
    // The largest integers, in bits, that a float holds exactly or that NumPy counts as safe.
    let integer_bits = |dtype| match bits(dtype) {
        16 => 8,
        32 => 16,
        _ => 64,
    };
    match (from.code(), to.code()) {
        (Code::BOOL, _) => true,
        (Code::UINT, Code::UINT) | (Code::INT, Code::INT) => from.bits() <= to.bits(),
        (Code::UINT, Code::INT) => from.bits() < to.bits(),
        (Code::UINT | Code::INT, Code::FLOAT | Code::BFLOAT | Code::COMPLEX) => {
            from.bits() <= integer_bits(to)
        }
        // Each of float16 and bfloat16 has numbers that the other lacks.
        (Code::FLOAT | Code::BFLOAT, Code::FLOAT | Code::BFLOAT) => bits(from) < bits(to),
        (Code::FLOAT | Code::BFLOAT | Code::COMPLEX, Code::COMPLEX) => bits(from) <= bits(to),
        _ => false,
    }
}

/// Returns true for a safe cast among booleans, integers, float32 and float64 that keeps all values.
fn is_lossless(from: DataType, to: DataType) -> bool {
    let is_usual =
        |dtype| rank(dtype) <= 2 || matches!(dtype, DataType::FLOAT32 | DataType::FLOAT64);
    let rounds = is_integer(from) && from.bits() == 64 && !is_integer(to);
    is_usual(from) && is_usual(to) && is_safe(from, to) && !rounds
}

/// A copy in C order with each element converted as by NumPy's `astype`, for dtypes that are converted.
pub(super) fn converted(source: &Source<'_>, to: DataType) -> PyResult<Tensor> {
    if source.byte_swapped {
        let swapped = copies::byte_swapped(&source.tensor)?;
        return of_dtype(&TensorRef::from(&swapped), to);
    }
    of_dtype(&source.tensor, to)
}

fn of_dtype(source: &TensorRef<'_>, to: DataType) -> PyResult<Tensor> {
    const FLOAT32: DataType = DataType::FLOAT32;
    macro_rules! to_float64 {
        ($($type:ty),+) => {
            $(if (source.dtype(), to) == (<$type>::DATA_TYPE, DataType::FLOAT64) {
                return mapped(source, |value: $type| value as f64);
            })+
        };
    }
    to_float64!(i64, i32, i16, i8, u64, u32, u16, u8, f32);
    match (source.dtype(), to) {
        (DataType::BFLOAT16, FLOAT32) => mapped(source, Bfloat16::to_f32),
        (DataType::BFLOAT16, to) => of_dtype(&(&of_dtype(source, FLOAT32)?).into(), to),
        (FLOAT32, DataType::BFLOAT16) => mapped(source, |v: f32| Bfloat16::from_f64(v.into())),
        (DataType::FLOAT64, DataType::BFLOAT16) => mapped(source, Bfloat16::from_f64),
        (_, DataType::BFLOAT16) => of_dtype(&(&of_dtype(source, FLOAT32)?).into(), to),
        (DataType::BOOL, to) => of_bool(source, to),
        (_, to) => by_numpy(source, to),
    }
}

fn mapped<S: Element, T: Element>(
    source: &TensorRef<'_>,
    convert: impl Fn(S) -> T + Sync,
) -> PyResult<Tensor> {
    let mut elements = Vec::new();
    let bytes = source.len().saturating_mul(size_of::<T>());
    copies::detached(bytes, |_| {
        // `Unaligned` accepts any address, so one loop serves aligned and unaligned elements.
        let view = source.view::<Unaligned<S>>()?;
        view.append_mapped(&mut elements, |value| convert(value.get())).map(Some)
    })?;
    Tensor::from_parts(elements, extents(source)).map_err(to_py_err)
}

/// Converts booleans. Refuses bytes other than 0 and 1, which would become other numbers.
fn of_bool(source: &TensorRef<'_>, to: DataType) -> PyResult<Tensor> {
    let (mut bytes, all_bits) = (Vec::new(), Cell::new(0));
    let view = source.view_bool_as_u8().map_err(to_py_err)?;
    let copy = |byte| {
        all_bits.set(all_bits.get() | byte);
        byte
    };
    view.append_mapped(&mut bytes, copy).map_err(to_py_err)?;
    if all_bits.get() > 1 {
        source.view::<bool>().map_err(to_py_err)?;
    }
    let bytes = Tensor::from_parts(bytes, extents(source)).map_err(to_py_err)?;
    if to == DataType::UINT8 { Ok(bytes) } else { of_dtype(&(&bytes).into(), to) }
}

fn extents(source: &TensorRef<'_>) -> Vec<usize> {
    source.shape().iter().map(|&extent| extent as usize).collect()
}

#[inline(never)]
fn by_numpy(source: &TensorRef<'_>, to: DataType) -> PyResult<Tensor> {
    Python::attach(|py| {
        let array = NumpyApi::required(py)?.converted(py, source, to)?;
        let bytes = source.len() as u128 * to.itemsize() as u128;
        if !copies::is_short(source.nbytes().max(bytes)) {
            py.check_signals()?;
        }
        // SAFETY: NumPy has just made the array, which is dropped here.
        let tensor = array.map(|array| unsafe { NumpyArray::owned(&array) }).transpose()?.flatten();
        tensor.ok_or_else(|| {
            let text = format!("NumPy cannot convert {} to {to}: convert it first", source.dtype());
            pyo3::exceptions::PyTypeError::new_err(text)
        })
    })
}

/// Converts integers to another integer type; `None` if one of them does not fit.
fn integers(
    source: &Source<'_>,
    to: DataType,
    misfit: &mut Option<OutOfRange>,
) -> PyResult<Option<Tensor>> {
    let unsigned = |dtype: DataType| dtype == DataType::UINT64;
    let from = source.tensor.dtype();
    // As `i64`, a u64 above `i64::MAX` is negative.
    let wide = converted(source, DataType::INT64)?;
    let (min, max) = match (to.code(), to.bits()) {
        _ if unsigned(from) && unsigned(to) => (i64::MIN, i64::MAX),
        (Code::UINT, 64) => (0, i64::MAX),
        (Code::UINT, bits) => (0, (1 << bits) - 1),
        (_, bits) => {
            let max = i64::MAX >> (64 - u32::from(bits));
            (if unsigned(from) { 0 } else { -max - 1 }, max)
        }
    };
    let view = wide.view::<i64>().map_err(to_py_err)?;
    let elements = view.as_slice().unwrap_or_default();
    let range = |(least, most): (i64, i64), &v: &i64| (least.min(v), most.max(v));
    let (least, most) = elements.iter().fold((i64::MAX, i64::MIN), range);
    if (least < min || most > max)
        && let Some(nth) = elements.iter().position(|v| !(min..=max).contains(v))
    {
        let value = elements[nth];
        let value = if unsigned(from) { (value as u64).to_string() } else { value.to_string() };
        *misfit = Some(OutOfRange::new(source.tensor.shape(), nth, value, to.to_string()));
        return Ok(None);
    }
    if to == DataType::INT64 { Ok(Some(wide)) } else { of_dtype(&(&wide).into(), to).map(Some) }
}

/// Converts times to another unit. A longer unit rounds down, as in NumPy. `Err` with an element that does not fit.
pub(super) fn rescaled(times: &Tensor, chosen: &Chosen) -> PyResult<Result<Tensor, OutOfRange>> {
    type Time = Datetime64<Seconds>;
    let (source, Scale { multiplier, divisor }) = (TensorRef::from(times), chosen.scale);
    let mut elements = source.to_vec::<Time>().map_err(to_py_err)?;
    for (nth, element) in elements.iter_mut().enumerate() {
        // NaT, the smallest integer, has no count.
        let Some(count) = element.count() else { continue };
        let scaled = count.checked_mul(multiplier).filter(|&scaled| scaled != i64::MIN);
        let Some(scaled) = scaled else {
            let (value, name) = (count.to_string(), chosen.name.to_owned());
            return Ok(Err(OutOfRange::new(source.shape(), nth, value, name)));
        };
        *element = Time::new(scaled.div_euclid(divisor));
    }
    Tensor::from_parts(elements, extents(&source)).map(Ok).map_err(to_py_err)
}
