//! The elements of a tensor as Python objects: lists, numbers and comparisons. A tensor does not compute: arithmetic works
//! if the other operand computes by its reflected method, which Python calls.

use std::fmt;

use dlbridge::{DataType, DataTypeCode as Code, Tensor, TensorRef};
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::import::has_protocol;
use dlbridge_pyo3::python::copies;
use dlbridge_pyo3::python::error::to_py_err;
use pyo3::IntoPyObjectExt;
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyList, PyNotImplemented, PyTuple};

use crate::tensor::TensorObject;

/// The number of list items made between two checks for signals; a million take about 50 ms.
const ASKED_EVERY: i64 = 1 << 20;

/// The most lists of a tensor without elements, which could ask for any number of them.
const MOST_EMPTY_LISTS: i64 = 1 << 20;

/// All elements as nested lists.
pub(super) fn to_list<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let (shape, mut lists) = (tensor.shape(), 1_i64);
    for &extent in shape.iter().take_while(|&&extent| extent > 0) {
        lists = lists.saturating_mul(extent);
    }
    if tensor.is_empty() && lists > MOST_EMPTY_LISTS {
        return Err(PyMemoryError::new_err(format!(
            "tolist() of the shape {shape:?} would make {lists} lists for no element; call t.shape"
        )));
    }
    let (copy, dtype) = (copied(tensor)?, tensor.dtype());
    let bytes = TensorRef::from(&copy).as_bytes().map_err(to_py_err)?;
    nested(py, shape, dtype, &mut bytes.chunks_exact(dtype.itemsize()))
}

/// The elements in C order, each in as many bytes as a single element takes.
fn copied(tensor: &Tensor) -> PyResult<Tensor> {
    let (dtype, device) = (tensor.dtype(), tensor.device());
    if !device.device_type().is_host_accessible() {
        return Err(PyBufferError::new_err(format!(
            "the data is on {device}, where its elements cannot be read; copy it to the CPU with \
             asdlpack(t, device='cpu') first"
        )));
    }
    if !Value::exists(dtype) {
        return Err(PyTypeError::new_err(format!(
            "Python cannot represent elements of {dtype}; call .numpy() or .torch()"
        )));
    }
    let _reading = Guard::reading(tensor, "tensor whose elements are read")?;
    match dtype.is_subbyte() && !tensor.is_subbyte_padded() {
        true => copies::unpacked(tensor),
        false => copies::copied(&TensorRef::from(tensor), 1),
    }
}

fn nested<'py, 'a>(
    py: Python<'py>,
    shape: &[i64],
    dtype: DataType,
    elements: &mut impl Iterator<Item = &'a [u8]>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some((&extent, inner)) = shape.split_first() else {
        // There are as many elements as the shape has.
        return object(py, dtype, elements.next().unwrap_or_default());
    };
    // The many lists make Python collect garbage, and an exception that is raised during a collection is lost.
    py.check_signals()?;
    let list = PyList::empty(py);
    for nth in 0..extent {
        if nth % ASKED_EVERY == ASKED_EVERY - 1 {
            py.check_signals()?;
        }
        list.append(nested(py, inner, dtype, elements)?)?;
    }
    Ok(list.into_any())
}

/// The element of a tensor with exactly one.
fn only<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    refusal: impl FnOnce(usize) -> PyErr,
) -> PyResult<Bound<'py, PyAny>> {
    if tensor.len() != 1 {
        return Err(refusal(tensor.len()));
    }
    let copy = copied(tensor)?;
    let bytes = TensorRef::from(&copy).as_bytes().map_err(to_py_err)?;
    object(py, tensor.dtype(), bytes)
}

pub(super) fn item<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    only(py, tensor, |len| {
        PyValueError::new_err(format!(
            "item() needs a tensor of one element, and this one has {len}; call t.tolist() or t[index].item()"
        ))
    })
}

/// The only element, for a function that converts it to a number.
pub(super) fn number<'py>(
    tensor: &Bound<'py, TensorObject>,
    function: &str,
) -> PyResult<Bound<'py, PyAny>> {
    only(tensor.py(), tensor.get().tensor(), |len| {
        PyTypeError::new_err(format!(
            "{function} needs a tensor of one element, and this one has {len}; call .numpy() or .torch() to compute \
             with all of them"
        ))
    })
}

/// The integer of a 0-d tensor, as an index.
pub(super) fn index<'py>(tensor: &Bound<'py, TensorObject>) -> PyResult<Bound<'py, PyAny>> {
    let this = tensor.get().tensor();
    // `bytearray(t)` requests an index first, and would make that many zeros.
    if this.ndim() != 0 || !matches!(this.dtype().code(), Code::INT | Code::UINT) {
        return Err(PyTypeError::new_err(
            "only a tensor of integers without dimensions is an index; call .numpy() or .torch() to compute",
        ));
    }
    number(tensor, "an index")
}

/// An element as a Python number; one with several lanes as a tuple of numbers.
fn object<'py>(py: Python<'py>, dtype: DataType, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let number = |value| match value {
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Int(value) => value.into_bound_py_any(py),
        Value::Uint(value) => value.into_bound_py_any(py),
        Value::Float(value, _) => value.into_bound_py_any(py),
        Value::Complex(real, imaginary, _) => {
            Ok(PyComplex::from_doubles(py, real, imaginary).into_any())
        }
    };
    let lane = |lane| number(Value::of_lane(dtype, bytes, lane));
    match dtype.lanes() {
        1 => lane(0),
        lanes => {
            let lanes = (0..usize::from(lanes)).map(lane).collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, lanes)?.into_any())
        }
    }
}

/// The refusal of an assignment to elements.
pub(super) fn no_assignment() -> PyErr {
    PyTypeError::new_err(
        "dlbridge.Tensor does not assign elements; call t.numpy()[index] = value, which shares the memory, \
         or t.torch()",
    )
}

/// `tensor == other` and `tensor != other`; Python asks the other operand for the order comparisons.
pub(super) fn compare<'py>(
    tensor: &Bound<'py, TensorObject>,
    other: &Bound<'py, PyAny>,
    comparison: CompareOp,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let (is_equality, symbol, method) = match comparison {
        CompareOp::Eq => (true, "==", intern!(py, "__eq__")),
        CompareOp::Ne => (false, "!=", intern!(py, "__ne__")),
        _ => return Ok(PyNotImplemented::get(py).to_owned().into_any()),
    };
    // A dictionary with weak keys compares the objects without an identity check.
    if other.is(tensor) {
        return Ok(PyBool::new(py, is_equality).to_owned().into_any());
    }
    if !has_elements(other)? {
        return Ok(PyNotImplemented::get(py).to_owned().into_any());
    }
    let class = other.get_type();
    // A tensor of another extension would ask this one.
    if class.fully_qualified_name()? != "dlbridge.Tensor" {
        let answer = class.getattr(method)?.call1((other, tensor))?;
        if !answer.is_instance_of::<PyNotImplemented>() {
            return Ok(answer);
        }
    }
    // Python would compare the identities, which is a wrong answer about the elements.
    Err(PyTypeError::new_err(format!(
        "dlbridge.Tensor carries elements and does not compute ('{symbol}'); call .numpy(), .torch() or .jax() first"
    )))
}

/// Returns true for a number, a sequence or an array, which a tensor may be equal to.
fn has_elements(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (py, class) = (object.py(), object.get_type());
    let [float, index, complex] =
        [intern!(py, "__float__"), intern!(py, "__index__"), intern!(py, "__complex__")];
    Ok(object.is_instance_of::<PyList>()
        || object.is_instance_of::<PyTuple>()
        || class.hasattr(float)?
        || class.hasattr(index)?
        || class.hasattr(complex)?
        || has_protocol(object)?)
}

/// The number in a lane of an element.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Bool(bool),
    Int(i128),
    Uint(u128),
    Float(f64, Single),
    Complex(f64, f64, Single),
}

/// True if the digits of an `f32` distinguish a float from its neighbours.
type Single = bool;

/// The bit patterns of a small float that are not a finite number.
#[derive(PartialEq)]
enum Special {
    /// The highest exponent: infinities and NaN.
    Ieee,
    /// All bits except the sign: NaN.
    NanAtEnd,
    /// The sign bit alone: NaN.
    NanAtSign,
    /// Every pattern is finite.
    Finite,
}

/// Floats of up to 16 bits, by the bits of their exponent and of their mantissa, and by their bias.
type Small = (u32, u32, i32, Special);

fn small(dtype: DataType) -> Option<Small> {
    use Special::{Finite, Ieee, NanAtEnd, NanAtSign};
    Some(match (dtype.code(), dtype.bits()) {
        (Code::FLOAT, 16) => (5, 10, 15, Ieee),
        (Code::BFLOAT, 16) => (8, 7, 127, Ieee),
        (Code::FLOAT8_E3M4, 8) => (3, 4, 3, Ieee),
        (Code::FLOAT8_E4M3, 8) => (4, 3, 7, Ieee),
        (Code::FLOAT8_E4M3B11FNUZ, 8) => (4, 3, 11, NanAtSign),
        (Code::FLOAT8_E4M3FN, 8) => (4, 3, 7, NanAtEnd),
        (Code::FLOAT8_E4M3FNUZ, 8) => (4, 3, 8, NanAtSign),
        (Code::FLOAT8_E5M2, 8) => (5, 2, 15, Ieee),
        (Code::FLOAT8_E5M2FNUZ, 8) => (5, 2, 16, NanAtSign),
        (Code::FLOAT6_E2M3FN, 6) => (2, 3, 1, Finite),
        (Code::FLOAT6_E3M2FN, 6) => (3, 2, 3, Finite),
        (Code::FLOAT4_E2M1FN, 4) => (2, 1, 1, Finite),
        _ => return None,
    })
}

fn value((exponent_bits, mantissa_bits, bias, special): Small, bits: u32) -> f64 {
    let sign_bit = 1_u32 << (exponent_bits + mantissa_bits);
    let magnitude = bits & (sign_bit - 1);
    let sign = if bits & sign_bit != 0 { -1.0 } else { 1.0 };
    let mantissa = magnitude & ((1 << mantissa_bits) - 1);
    let exponent = magnitude >> mantissa_bits;
    let highest = exponent == (1 << exponent_bits) - 1;
    match special {
        Special::Ieee if highest && mantissa == 0 => return sign * f64::INFINITY,
        Special::Ieee if highest => return f64::NAN,
        Special::NanAtEnd if magnitude == sign_bit - 1 => return f64::NAN,
        Special::NanAtSign if bits & (2 * sign_bit - 1) == sign_bit => return f64::NAN,
        _ => {}
    }
    // Subnormal numbers lack the leading one.
    let (leading, exponent) = match exponent {
        0 => (0, 1),
        exponent => (1 << mantissa_bits, exponent as i32),
    };
    let fraction = f64::from(leading + mantissa);
    sign * fraction * 2.0_f64.powi(exponent - bias - mantissa_bits as i32)
}

impl Value {
    /// Returns true if Python has values for the elements of a dtype.
    pub(super) fn exists(dtype: DataType) -> bool {
        match dtype.code() {
            Code::INT | Code::UINT | Code::OPAQUE_HANDLE => dtype.bits() <= 128,
            Code::BOOL => true,
            Code::FLOAT => matches!(dtype.bits(), 16 | 32 | 64),
            Code::COMPLEX => matches!(dtype.bits(), 32 | 64 | 128),
            Code::FLOAT8_E8M0FNU => dtype.bits() == 8,
            _ => small(dtype).is_some(),
        }
    }

    /// The number in a lane of an element whose dtype has values. Missing bits count as zero.
    pub(super) fn of_lane(dtype: DataType, bytes: &[u8], lane: usize) -> Self {
        let width = usize::from(dtype.bits());
        let bits = || bits_at(bytes, lane * width, width);
        match dtype.code() {
            Code::COMPLEX => {
                let half = DataType::new(Code::FLOAT, dtype.bits() / 2, 1);
                let part =
                    |nth| float(half, bits_at(bytes, (2 * lane + nth) * width / 2, width / 2));
                Self::Complex(part(0), part(1), width <= 64)
            }
            Code::BOOL => Self::Bool(bits() != 0),
            Code::INT => {
                let unused = 128 - width as u32;
                Self::Int((bits() << unused).cast_signed() >> unused)
            }
            Code::UINT | Code::OPAQUE_HANDLE => Self::Uint(bits()),
            _ => Self::Float(float(dtype, bits()), width <= 32),
        }
    }
}

/// `width` bits of the bytes, from bit `first` on; the first bit is the lowest, on this machine.
fn bits_at(bytes: &[u8], first: usize, width: usize) -> u128 {
    let whole = first.is_multiple_of(8) && width.is_multiple_of(8);
    if whole && let Some(number) = bytes.get(first / 8..(first + width) / 8) {
        let shift = |bits: u128, &byte: &u8| bits << 8 | u128::from(byte);
        return match cfg!(target_endian = "little") {
            true => number.iter().rev().fold(0, shift),
            false => number.iter().fold(0, shift),
        };
    }
    let bit = |nth: usize| bytes.get(nth / 8).is_some_and(|byte| byte >> (nth % 8) & 1 != 0);
    (0..width).fold(0, |bits, nth| bits | u128::from(bit(first + nth)) << nth)
}

fn float(dtype: DataType, bits: u128) -> f64 {
    match (dtype.code(), dtype.bits()) {
        (Code::FLOAT, 64) => f64::from_bits(bits as u64),
        (Code::FLOAT, 32) => f64::from(f32::from_bits(bits as u32)),
        (Code::FLOAT8_E8M0FNU, _) if bits == 0xff => f64::NAN,
        (Code::FLOAT8_E8M0FNU, _) => 2.0_f64.powi(bits as i32 - 127),
        _ => small(dtype).map_or(f64::NAN, |small| value(small, bits as u32)),
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Int(value) => value.fmt(f),
            Self::Uint(value) => value.fmt(f),
            Self::Float(value, single) => write_float(f, value, single),
            Self::Complex(real, imaginary, single) => {
                f.write_str("(")?;
                write_float(f, real, single)?;
                if !imaginary.is_sign_negative() || imaginary.is_nan() {
                    f.write_str("+")?;
                }
                write_float(f, imaginary, single)?;
                f.write_str("j)")
            }
        }
    }
}

/// Writes a float as Python does, with the digits of the dtype.
fn write_float(f: &mut fmt::Formatter<'_>, value: f64, single: Single) -> fmt::Result {
    match single {
        _ if value.is_nan() => f.write_str("nan"),
        true => write!(f, "{:?}", value as f32),
        false => write!(f, "{value:?}"),
    }
}
