//! Comparisons, assignments and conversions to a number. A tensor does not compute: arithmetic works if the other operand
//! computes by its reflected method, which Python calls.

use pyo3::basic::CompareOp;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyNotImplemented, PyTuple};

use super::elements;
use crate::PyTensor;
use crate::import::has_protocol;

/// The refusal of an assignment to elements.
pub(super) fn no_assignment() -> PyErr {
    PyTypeError::new_err(
        "dlbridge.Tensor does not assign elements; call t.numpy()[index] = value, which shares the memory, \
         or t.torch()",
    )
}

/// `tensor == other` and `tensor != other`; Python asks the other operand for the order comparisons.
pub(super) fn compare<'py>(
    tensor: &Bound<'py, PyTensor>,
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

/// The only element, for a function that converts it to a number.
pub(super) fn number<'py>(
    tensor: &Bound<'py, PyTensor>,
    function: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let tensor_inside = tensor.get().tensor();
    elements::only(tensor.py(), tensor_inside)?.ok_or_else(|| {
        PyTypeError::new_err(format!(
            "{function} needs a tensor of one element, and this one has {}; call .numpy() or .torch() to compute \
             with all of them",
            tensor_inside.len()
        ))
    })
}

/// The integer of a 0-d tensor, as an index.
pub(super) fn index<'py>(tensor: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, PyAny>> {
    use dlbridge::DataTypeCode as Code;
    let this = tensor.get().tensor();
    // `bytearray(t)` requests an index first, and would make that many zeros.
    if this.ndim() != 0 || !matches!(this.dtype().code(), Code::INT | Code::UINT) {
        return Err(PyTypeError::new_err(
            "only a tensor of integers without dimensions is an index; call .numpy() or .torch() to compute",
        ));
    }
    number(tensor, "an index")
}
