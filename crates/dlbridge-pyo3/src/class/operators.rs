//! Operators. A tensor does not compute: an operator works if the other operand belongs to a library that computes, and
//! otherwise raises an error that names such libraries.

use pyo3::basic::CompareOp;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyNotImplemented, PyTuple};

use super::elements;
use crate::PyTensor;
use crate::import::has_protocol;

/// The error for an operation that a tensor does not support.
pub(super) fn refusal(what: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "dlbridge.Tensor carries elements and does not compute ({what}); call .numpy(), .torch() or .jax() first"
    ))
}

/// The refusal of an assignment to elements.
pub(super) fn no_assignment() -> PyErr {
    PyTypeError::new_err(
        "dlbridge.Tensor does not assign elements; call t.numpy()[index] = value, which shares the memory, \
         or t.torch()",
    )
}

/// The refusal to convert elements.
pub(super) fn no_conversion() -> PyErr {
    PyTypeError::new_err(
        "dlbridge.Tensor never converts elements; call .numpy().astype(dtype) or .torch().to(dtype) and import \
         the result",
    )
}

/// Returns true for a tensor of any extension built on dlbridge, this one included: they all refuse operators.
fn is_tensor(object: &Bound<'_, PyAny>) -> bool {
    let is_named_so = || {
        let name = object.get_type().fully_qualified_name().ok();
        name.is_some_and(|name| name.to_cow().is_ok_and(|name| name == "dlbridge.Tensor"))
    };
    object.is_instance_of::<PyTensor>() || is_named_so()
}

/// The result of the other operand's own method.
enum Answer<'py> {
    Computed(Bound<'py, PyAny>),
    /// No result; the method's `TypeError` with the reason, if it raised one.
    None(Option<PyErr>),
}

/// Looks up a method as Python's own operators do: in the classes of the object's type, never in its metaclass, and
/// bound by its descriptor. `None` as the attribute means that the class does not support the operator.
fn special_method<'py>(
    object: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let class = object.get_type();
    for base in class.mro() {
        let attributes = base.getattr(intern!(object.py(), "__dict__"))?;
        if !attributes.contains(name)? {
            continue;
        }
        let found = attributes.get_item(name)?;
        if found.is_none() {
            return Ok(None);
        }
        return match found.get_type().getattr_opt(intern!(object.py(), "__get__"))? {
            Some(bind) => bind.call1((found, object, class)).map(Some),
            None => Ok(Some(found)),
        };
    }
    Ok(None)
}

/// Calls a method of the other operand with the tensor.
fn answer<'py>(
    tensor: &Bound<'py, PyTensor>,
    other: &Bound<'py, PyAny>,
    method: &str,
) -> PyResult<Answer<'py>> {
    let py = tensor.py();
    if is_tensor(other) {
        return Ok(Answer::None(None));
    }
    let Some(method) = special_method(other, method)? else { return Ok(Answer::None(None)) };
    match method.call1((tensor,)) {
        Ok(answer) if answer.is_instance_of::<PyNotImplemented>() => Ok(Answer::None(None)),
        Err(error) if error.is_instance_of::<PyTypeError>(py) => Ok(Answer::None(Some(error))),
        answer => answer.map(Answer::Computed),
    }
}

/// The refusal of an operator; its cause is the other operand's exception.
fn refused(py: Python<'_>, symbol: &str, cause: Option<PyErr>) -> PyErr {
    let what = match symbol.ends_with(')') {
        true => symbol.to_owned(),
        false => format!("'{symbol}'"),
    };
    let refusal = refusal(&what);
    refusal.set_cause(py, cause);
    refusal
}

/// `tensor + other`, which the other operand computes by its `reflected` method if it can.
pub(super) fn binary<'py>(
    tensor: &Bound<'py, PyTensor>,
    other: &Bound<'py, PyAny>,
    reflected: &str,
    symbol: &str,
) -> PyResult<Bound<'py, PyAny>> {
    match answer(tensor, other, reflected)? {
        Answer::Computed(answer) => Ok(answer),
        Answer::None(cause) => Err(refused(tensor.py(), symbol, cause)),
    }
}

/// `tensor < other` and the other comparisons.
pub(super) fn compare<'py>(
    tensor: &Bound<'py, PyTensor>,
    other: &Bound<'py, PyAny>,
    comparison: CompareOp,
) -> PyResult<Bound<'py, PyAny>> {
    match comparison {
        CompareOp::Lt => binary(tensor, other, "__gt__", "<"),
        CompareOp::Le => binary(tensor, other, "__ge__", "<="),
        CompareOp::Gt => binary(tensor, other, "__lt__", ">"),
        CompareOp::Ge => binary(tensor, other, "__le__", ">="),
        CompareOp::Eq => equality(tensor, other, "__eq__", "=="),
        CompareOp::Ne => equality(tensor, other, "__ne__", "!="),
    }
}

/// `tensor == other` and `tensor != other`. An object without elements is never equal.
fn equality<'py>(
    tensor: &Bound<'py, PyTensor>,
    other: &Bound<'py, PyAny>,
    method: &str,
    symbol: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    // A dictionary with weak keys compares the objects without an identity check.
    if other.is(tensor) {
        return Ok(PyBool::new(py, symbol == "==").to_owned().into_any());
    }
    let cause = match answer(tensor, other, method)? {
        Answer::Computed(answer) => return Ok(answer),
        Answer::None(cause) => cause,
    };
    let class = other.get_type();
    let is_number = || -> PyResult<bool> {
        let [float, index, complex] =
            [intern!(py, "__float__"), intern!(py, "__index__"), intern!(py, "__complex__")];
        Ok(class.hasattr(float)? || class.hasattr(index)? || class.hasattr(complex)?)
    };
    let is_sequence = other.is_instance_of::<PyList>() || other.is_instance_of::<PyTuple>();
    if is_tensor(other) || is_sequence || is_number()? || has_protocol(other)? {
        return Err(refused(py, symbol, cause));
    }
    Ok(PyNotImplemented::get(py).to_owned().into_any())
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
