//! The elements of a tensor as Python objects: lists, numbers and comparisons. A tensor does not compute: arithmetic works
//! if the other operand computes by its reflected method, which Python calls.

use dlbridge::{DataType, DataTypeCode as Code, Tensor, TensorRef};
use pyo3::IntoPyObjectExt;
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyList, PyNotImplemented, PyTuple};

use super::value::Value;
use crate::tensor::TensorObject;
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::copies;
use dlbridge_pyo3::error::to_py_err;
use dlbridge_pyo3::import::has_protocol;

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

/// The element of a tensor with exactly one; `None` for other tensors.
fn only<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Option<Bound<'py, PyAny>>> {
    if tensor.len() != 1 {
        return Ok(None);
    }
    let copy = copied(tensor)?;
    let bytes = TensorRef::from(&copy).as_bytes().map_err(to_py_err)?;
    object(py, tensor.dtype(), bytes).map(Some)
}

/// The value of `item()`.
pub(super) fn item<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    only(py, tensor)?.ok_or_else(|| {
        PyValueError::new_err(format!(
            "item() needs a tensor of one element, and this one has {}; call t.tolist() or t[index].item()",
            tensor.len()
        ))
    })
}

/// The only element, for a function that converts it to a number.
pub(super) fn number<'py>(
    tensor: &Bound<'py, TensorObject>,
    function: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let tensor_inside = tensor.get().tensor();
    only(tensor.py(), tensor_inside)?.ok_or_else(|| {
        PyTypeError::new_err(format!(
            "{function} needs a tensor of one element, and this one has {}; call .numpy() or .torch() to compute \
             with all of them",
            tensor_inside.len()
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
