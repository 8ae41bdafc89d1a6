//! A call with arrays of NumPy and of every other library that typed arguments accept.

use dlbridge::Tensor;
use dlbridge_pyo3::{
    AnyDataType, ArgumentError, DYNAMIC, DefaultStream, Like, OnCuda, PyDeviceTensor,
    PyReadonlyTensor, PyReadwriteTensor, PyTensor, Writable,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;

use super::bind::{Arguments, outs, single};
use super::exceptions::{exception, placed};
use super::route::{self, Route};
use crate::call::Values;
use crate::exclusive::{Targets, add_target, make_writable};
use crate::new_tensors;
use crate::on_cuda::default_stream;
use crate::operator::Operator;
use crate::parameter::{DefaultValue, Kind, Parameter};
use crate::value::Value;

type Readonly<'py> = PyReadonlyTensor<'py, AnyDataType, DYNAMIC>;
type Readwrite<'py> = PyReadwriteTensor<'py, AnyDataType, DYNAMIC>;
/// On the default stream of the device, with which every producer can synchronise.
type OnDevice<'py, C> = PyDeviceTensor<'py, AnyDataType, DYNAMIC, DefaultStream, C>;
type WritableOnDevice<'py> = OnDevice<'py, (OnCuda, Writable)>;

/// An argument, which the value of the call borrows.
enum Held<'py> {
    None,
    Default(DefaultValue),
    Readonly(Readonly<'py>),
    Readwrite(Readwrite<'py>),
    OnCuda(OnDevice<'py, OnCuda>),
    WritableOnCuda(WritableOnDevice<'py>),
    Float(f64),
    Int(i64),
    Bool(bool),
    Str(String),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
}

/// Calls the operator and returns its outputs in the library of the first tensor.
pub(super) fn call<'py>(
    operator: &'static Operator,
    arguments: &Bound<'py, PyTuple>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = arguments.py();
    let Arguments { values, out } = Arguments::bind(operator, arguments, keywords)?;
    let mut held = SmallVec::<[Held<'py>; 6]>::new();
    for (parameter, value) in operator.inputs().zip(&values) {
        held.push(extracted(operator, parameter, value.as_ref())?);
    }
    let mut results: Vec<_> = operator
        .inputs()
        .zip(&values)
        .filter(|(parameter, _)| matches!(parameter.kind, Kind::InPlace(_)))
        .filter_map(|(_, value)| value.clone())
        .collect();
    // Outlives the values that borrow it.
    let written: Vec<WritableOnDevice<'py>>;
    let mut inputs: Values<'_> = held.iter_mut().map(Held::value).collect();
    match out {
        Some(out) if operator.on_cuda => {
            let objects;
            (written, objects) = filled(operator, &out)?;
            let mut targets = Targets::new();
            let mut writable = || {
                // SAFETY: the producers export their memory to this call until the arguments are dropped, for writing where
                // the operator writes. A race with code that does not know of the call is the program's responsibility, as
                // for every typed argument.
                unsafe { make_writable(operator, &mut inputs) }?;
                written.iter().try_for_each(|tensor| {
                    let target = Value::of(tensor.as_tensor_ref());
                    // SAFETY: as above: each tensor of `written` is the memory of a producer, exported until it is dropped.
                    unsafe { add_target(operator, &inputs, &mut targets, target) }
                })
            };
            writable().map_err(|error| exception(&error.in_operator(operator.name)))?;
            fill(py, operator, &mut inputs, targets)?;
            results.extend(objects);
        }
        Some(out) => {
            let (mut tensors, objects) = filled::<Readwrite<'py>>(operator, &out)?;
            let targets = tensors.iter_mut();
            let targets = targets.map(|tensor| Value::of_mut(tensor.as_tensor_ref_mut())).collect();
            fill(py, operator, &mut inputs, targets)?;
            results.extend(objects);
        }
        None => {
            if operator.on_cuda {
                // SAFETY: as for a call with `out`, the producers export their memory to this call.
                let none = unsafe { make_writable(operator, &mut inputs) };
                none.map_err(|error| exception(&error.in_operator(operator.name)))?;
            }
            let call = || new_tensors::call(operator, &mut inputs, &default_stream);
            let tensors = py.detach(call).map_err(|error| exception(&error))?;
            let prototype = operator
                .inputs()
                .zip(&values)
                .find(|(one, value)| !one.kind.is_attribute() && value.is_some());
            let prototype = prototype.and_then(|(_, value)| value.clone());
            for tensor in tensors {
                results.push(match &prototype {
                    Some(prototype) => like(prototype, tensor)?,
                    None => PyTensor::from(tensor).into_library(py, "numpy")?,
                });
            }
        }
    }
    single(py, results)
}

/// A result in the library of an argument. pandas aligns columns by their index, so a column has that of the argument, and a
/// result of another length is an array.
fn like<'py>(prototype: &Bound<'py, PyAny>, tensor: Tensor) -> PyResult<Bound<'py, PyAny>> {
    let py = prototype.py();
    if route::of_object(prototype)? != Route::Pandas {
        return Like::new(prototype, tensor).into_pyobject(py);
    }
    if tensor.shape() != [prototype.len()? as i64] {
        return PyTensor::from(tensor).into_library(py, "numpy");
    }
    let column = Like::new(prototype, tensor).into_pyobject(py)?;
    for name in ["index", "name"] {
        column.setattr(name, prototype.getattr(name)?)?;
    }
    Ok(column)
}

/// Runs the operator without the GIL on tensors of the caller.
fn fill(
    py: Python<'_>,
    operator: &'static Operator,
    inputs: &mut Values<'_>,
    targets: Targets<'_>,
) -> PyResult<()> {
    let filled = py.detach(|| operator.fill(inputs, targets, &default_stream));
    filled.map_err(|error| exception(&error))
}

/// The argument of a parameter, or its default.
fn extracted<'py>(
    operator: &Operator,
    parameter: &Parameter,
    value: Option<&Bound<'py, PyAny>>,
) -> PyResult<Held<'py>> {
    let Some(value) = value else {
        return Ok(parameter.default.map_or(Held::None, Held::Default));
    };
    let found = match parameter.kind {
        Kind::Input(_) | Kind::Optional(_) if operator.on_cuda => {
            value.extract().map(Held::OnCuda).map_err(PyErr::from)
        }
        Kind::InPlace(_) if operator.on_cuda => {
            value.extract().map(Held::WritableOnCuda).map_err(PyErr::from)
        }
        Kind::Input(_) | Kind::Optional(_) => {
            value.extract().map(Held::Readonly).map_err(PyErr::from)
        }
        Kind::InPlace(_) => value.extract().map(Held::Readwrite).map_err(PyErr::from),
        Kind::Float => value.extract().map(Held::Float),
        Kind::Int => value.extract().map(Held::Int),
        Kind::Bool => value.extract().map(Held::Bool),
        Kind::Str => value.extract().map(Held::Str),
        Kind::Ints => value.extract().map(Held::Ints),
        Kind::Floats => value.extract().map(Held::Floats),
        Kind::Output(_) | Kind::Dynamic(_) | Kind::Cuda => Ok(Held::None),
    };
    found.map_err(|error| {
        let py = value.py();
        let place = format!("{}: {}", operator.name, parameter.name);
        if parameter.kind.is_attribute() && error.is_instance_of::<PyTypeError>(py) {
            let class = value
                .get_type()
                .name()
                .map_or_else(|_| "object".to_owned(), |name| name.to_string());
            let kind = parameter.kind.text();
            return PyTypeError::new_err(format!("{place} must be {kind}, but is of type {class}"));
        }
        placed(py, &place, error)
    })
}

impl Held<'_> {
    fn value(&mut self) -> Value<'_> {
        match self {
            Self::None => Value::None,
            Self::Default(value) => Value::from(*value),
            Self::Readonly(tensor) => Value::of(tensor.as_tensor_ref()),
            Self::Readwrite(tensor) => Value::of_mut(tensor.as_tensor_ref_mut()),
            Self::OnCuda(tensor) => Value::of(tensor.as_tensor_ref()),
            // `exclusive` makes it mutable.
            Self::WritableOnCuda(tensor) => Value::of(tensor.as_tensor_ref()),
            Self::Float(value) => Value::Float(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Bool(value) => Value::Bool(*value),
            Self::Str(value) => Value::Str(value),
            Self::Ints(values) => Value::Ints(values),
            Self::Floats(values) => Value::Floats(values),
        }
    }
}

/// The tensors that the caller wants filled, and their objects.
fn filled<'py, T>(
    operator: &Operator,
    out: &Bound<'py, PyAny>,
) -> PyResult<(Vec<T>, Vec<Bound<'py, PyAny>>)>
where
    T: for<'a> FromPyObject<'a, 'py, Error = ArgumentError<'a, 'py>>,
{
    let objects = outs(operator, out)?;
    let writable = |object: &Bound<'py, PyAny>| {
        let place = format!("{}: out", operator.name);
        object
            .extract::<T>()
            .map_err(|error: ArgumentError<'_, '_>| placed(out.py(), &place, error.into()))
    };
    let tensors = objects.iter().map(writable).collect::<PyResult<_>>()?;
    Ok((tensors, objects))
}
