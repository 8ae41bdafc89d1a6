//! Conversions to another dtype: `AllowCopy` and `AllowCast`.
//!
//! The rules are here, and NumPy converts the elements, except in two cases. Loops here convert to float64, the most
//! frequent target, in half of the time that a call of NumPy takes; and NumPy lacks bfloat16.

use std::fmt::Display;
use std::ops::RangeInclusive;

use dlbridge::bits::{Bfloat16, Float16};
use dlbridge::{
    DataType, DataTypeCode as Code, Datetime64, Element, Seconds, Tensor, TensorRef, Unaligned,
};
use pyo3::exceptions::{PyBufferError, PyOverflowError, PyTypeError};
use pyo3::prelude::*;

use super::refusal::not_borrowed;
use super::spec::{ArgumentSpec, Unfit};
use crate::numpy::api::{self, NumpyApi};
use crate::numpy::array::NumpyArray;
use crate::protocol::time::{self, Chosen, Elements, Scale, Times};
use crate::python::copies;
use crate::python::error::to_py_err;

/// The words for an element that a dtype cannot hold.
pub(super) fn out_of_range(
    shape: &[i64],
    nth: usize,
    value: impl Display,
    dtype: impl Display,
) -> String {
    let (mut place, mut rest) = (String::new(), nth);
    for &extent in shape.iter().rev() {
        place.insert_str(0, &format!("[{}]", rest % extent as usize));
        rest /= extent as usize;
    }
    let space = if place.is_empty() { "" } else { " " };
    format!("element{space}{place} is {value}, which is out of range for {dtype}")
}

/// Makes a copy in C order with elements of the first expected dtype that loses nothing, or else of the first that the
/// rule allows.
pub(super) fn by_rule(source: &TensorRef<'_>, spec: &ArgumentSpec) -> Result<Tensor, Unfit> {
    let from = source.dtype();
    let first = |allows: fn(DataType, DataType) -> bool| {
        let converts = |to| is_converted(from) && is_converted(to) && allows(from, to);
        spec.dtypes.iter().copied().find(|&to| converts(to))
    };
    let exact = first(if spec.allow_cast { is_safe } else { is_lossless });
    if exact.is_none()
        && spec.allow_cast
        && let Some(to) = first(|from, to| is_integer(from) && is_integer(to))
    {
        return integers(source, to)?.map_err(Unfit::Element);
    }
    let rounded = || first(is_same_kind).filter(|_| spec.allow_cast);
    Ok(converted(source, exact.or_else(rounded).ok_or(Unfit::Always)?)?)
}

/// Returns true for dtypes that are converted from and to each other.
pub fn is_converted(dtype: DataType) -> bool {
    api::has_dtype(dtype) || dtype == DataType::BFLOAT16
}

pub fn is_integer(dtype: DataType) -> bool {
    matches!(dtype.code(), Code::INT | Code::UINT)
}

/// The kind of a dtype in NumPy's order: a boolean, an integer, a float or a complex number.
pub fn kind(dtype: DataType) -> usize {
    match dtype.code() {
        Code::BOOL => 0,
        Code::UINT | Code::INT => 1,
        Code::FLOAT | Code::BFLOAT => 2,
        _ => 3,
    }
}

/// Returns true if NumPy's rule `same_kind` allows the cast.
pub fn is_same_kind(from: DataType, to: DataType) -> bool {
    kind(from) <= kind(to)
        && (from.code(), to.code()) != (Code::INT, Code::UINT)
        // ml_dtypes registers no cast from bfloat16 to float16, which has fewer exponents.
        && (from.code(), to) != (Code::BFLOAT, DataType::FLOAT16)
}

/// Returns true if NumPy's rule `safe` allows the cast.
pub fn is_safe(from: DataType, to: DataType) -> bool {
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
        |dtype| kind(dtype) <= 1 || matches!(dtype, DataType::FLOAT32 | DataType::FLOAT64);
    let rounds = is_integer(from) && from.bits() == 64 && !is_integer(to);
    is_usual(from) && is_usual(to) && is_safe(from, to) && !rounds
}

/// A copy in C order with each element converted as by NumPy's `astype`, for dtypes that are converted.
pub fn converted(source: &TensorRef<'_>, to: DataType) -> PyResult<Tensor> {
    let through = |float| {
        let wide = converted(source, float)?;
        converted(&TensorRef::from(&wide), to)
    };
    match (source.dtype(), to) {
        (DataType::INT64, DataType::FLOAT64) => mapped(source, |value: i64| value as f64),
        (DataType::UINT8, DataType::FLOAT64) => mapped(source, |value: u8| f64::from(value)),
        (DataType::FLOAT32, DataType::FLOAT64) => mapped(source, |value: f32| f64::from(value)),
        (DataType::BFLOAT16, DataType::FLOAT32) => mapped(source, Bfloat16::to_f32),
        (DataType::FLOAT64, DataType::BFLOAT16) => mapped(source, Bfloat16::from_f64),
        (DataType::FLOAT32, DataType::BFLOAT16) => through(DataType::FLOAT64),
        (DataType::BFLOAT16, _) | (_, DataType::BFLOAT16) => through(DataType::FLOAT32),
        (DataType::BOOL, _) => {
            let bytes = source.view_bool_as_u8().map_err(to_py_err)?;
            let copy = copies::copied(&TensorRef::from(bytes), 1)?;
            let view = copy.view::<u8>().map_err(to_py_err)?;
            // Refuses bytes other than 0 and 1, which would become other numbers.
            if view.as_slice().unwrap_or_default().iter().fold(0, |all, byte| all | byte) > 1 {
                source.view::<bool>().map_err(not_borrowed)?;
            }
            match to == DataType::UINT8 {
                true => Ok(copy),
                false => converted(&TensorRef::from(&copy), to),
            }
        }
        _ => by_numpy(source, to),
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

pub(super) fn extents(source: &TensorRef<'_>) -> Vec<usize> {
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
            PyTypeError::new_err(text)
        })
    })
}

/// Of several dtypes, the given one or the first of the nearest kind that holds its kind; or else the first of all.
pub(super) fn nearest(dtypes: &[DataType], natural: DataType) -> DataType {
    let holds = |dtype: &&DataType| is_converted(**dtype) && kind(**dtype) >= kind(natural);
    match dtypes {
        [] => natural,
        _ if dtypes.contains(&natural) => natural,
        _ => *dtypes.iter().filter(holds).min_by_key(|dtype| kind(**dtype)).unwrap_or(&dtypes[0]),
    }
}

/// Returns true if a dtype has an integer of Python: an integer type its value, a float type a finite one near it.
pub fn has_integer(dtype: DataType, number: &Bound<'_, PyAny>) -> PyResult<bool> {
    let has = match is_integer(dtype) {
        true => number.extract().map(|value| range(dtype).contains(&value)),
        false => number.extract().map(|value: f64| match dtype {
            DataType::FLOAT16 => Float16::from_f64(value).to_f32().is_finite(),
            DataType::BFLOAT16 => Bfloat16::from_f64(value).to_f32().is_finite(),
            DataType::FLOAT32 | DataType::COMPLEX64 => (value as f32).is_finite(),
            _ => true,
        }),
    };
    match has {
        Err(error) if error.is_instance_of::<PyOverflowError>(number.py()) => Ok(false),
        has => has,
    }
}

/// The values of an integer type.
fn range(dtype: DataType) -> RangeInclusive<i128> {
    match dtype.code() {
        Code::UINT => 0..=(1 << dtype.bits()) - 1,
        _ => -(1 << (dtype.bits() - 1))..=(1 << (dtype.bits() - 1)) - 1,
    }
}

/// Converts integers to another integer type; `Err` with the words for one that it lacks.
pub(super) fn integers(source: &TensorRef<'_>, to: DataType) -> PyResult<Result<Tensor, String>> {
    let is_uint64 = source.dtype() == DataType::UINT64;
    // As `i64`, a u64 above `i64::MAX` is negative.
    let wide = converted(source, DataType::INT64)?;
    let value = |&wide: &i64| if is_uint64 { i128::from(wide as u64) } else { wide.into() };
    let view = wide.view::<i64>().map_err(to_py_err)?;
    let (elements, range) = (view.as_slice().unwrap_or_default(), range(to));
    if let Some(nth) = elements.iter().position(|wide| !range.contains(&value(wide))) {
        return Ok(Err(out_of_range(source.shape(), nth, value(&elements[nth]), to)));
    }
    let is_done = to == DataType::INT64;
    Ok(Ok(if is_done { wide } else { converted(&TensorRef::from(&wide), to)? }))
}

/// Converts counts of the times of one dtype to those of another, each by NumPy's name. `times` accepts the latter.
pub fn counts_in(counts: Tensor, from: &str, times: &Times) -> PyResult<Tensor> {
    let unfit = |text| Err(PyBufferError::new_err(text));
    let found = Elements::Named(from);
    if !times.choose(found) {
        return unfit(format!("expected {}, got {}", times.name(), times.with_remedy(&found, "")));
    }
    let Some(chosen) = times.chosen() else { unreachable!("chosen above") };
    let counts = time::relabelled(counts, Datetime64::<Seconds>::DATA_TYPE)?;
    match rescaled(&TensorRef::from(&counts), &chosen) {
        Ok(counts) => time::counts_of_times(counts),
        Err(Unfit::Raised(error)) => Err(error),
        Err(Unfit::Element(text)) => unfit(text),
        Err(Unfit::Always) => unreachable!("counts have no such refusal"),
    }
}

/// Converts times to another unit. A longer unit rounds down, as in NumPy.
pub(super) fn rescaled(times: &TensorRef<'_>, chosen: &Chosen) -> Result<Tensor, Unfit> {
    type Time = Datetime64<Seconds>;
    let Scale { multiplier, divisor } = chosen.scale;
    let mut elements = times.to_vec::<Time>().map_err(to_py_err)?;
    for (nth, element) in elements.iter_mut().enumerate() {
        // NaT, the smallest integer, has no count.
        let Some(count) = element.count() else { continue };
        let scaled = count.checked_mul(multiplier).filter(|&scaled| scaled != i64::MIN);
        let words = || Unfit::Element(out_of_range(times.shape(), nth, count, chosen.name));
        *element = Time::new(scaled.ok_or_else(words)?.div_euclid(divisor));
    }
    Ok(Tensor::from_parts(elements, extents(times)).map_err(to_py_err)?)
}
