//! The description of an operator for Python code that registers it with frameworks.

use dlbridge::{DataType, TensorRef};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyEllipsis, PyTuple};

use super::bind::has_out;
use super::exceptions::exception;
use crate::operator::Operator;
use crate::parameter::{DefaultValue, Kind, Parameter};
use crate::shape::{Extent, Part, Shape};
use crate::value::Value;

/// The parameters that the caller passes: name, kind and default.
pub(super) fn parameters<'py>(
    py: Python<'py>,
    operator: &Operator,
) -> PyResult<Vec<Bound<'py, PyTuple>>> {
    let described = operator.inputs().map(|parameter| {
        let kind = match parameter.kind {
            Kind::Optional(_) => "optional",
            Kind::InPlace(_) => "in_place",
            Kind::Input(_) | Kind::Output(_) | Kind::Dynamic(_) | Kind::Cuda => "tensor",
            Kind::Float => "float",
            Kind::Int => "int",
            Kind::Bool => "bool",
            Kind::Str => "str",
            Kind::Ints => "ints",
            Kind::Floats => "floats",
        };
        (parameter.name, kind, default(py, parameter)?).into_pyobject(py)
    });
    described.collect()
}

/// The value of an argument that the caller omits; `...` if none may be omitted.
pub(super) fn default<'py>(py: Python<'py>, parameter: &Parameter) -> PyResult<Bound<'py, PyAny>> {
    match parameter.default {
        None if parameter.is_omissible() => Ok(py.None().into_bound(py)),
        None => Ok(PyEllipsis::get(py).to_owned().into_any()),
        Some(DefaultValue::Float(value)) => value.into_bound_py_any(py),
        Some(DefaultValue::Int(value)) => value.into_bound_py_any(py),
        Some(DefaultValue::Bool(value)) => value.into_bound_py_any(py),
        Some(DefaultValue::Str(value)) => value.into_bound_py_any(py),
        Some(DefaultValue::Ints(values)) => values.into_bound_py_any(py),
        Some(DefaultValue::Floats(values)) => values.into_bound_py_any(py),
    }
}

/// The signature of the Python function.
pub(super) fn signature<'py>(py: Python<'py>, operator: &Operator) -> PyResult<Bound<'py, PyAny>> {
    let inspect = py.import("inspect")?;
    let class = inspect.getattr("Parameter")?;
    let made = |name: &str, kind: &str, default: &Bound<'py, PyAny>| {
        let keywords = PyDict::new(py);
        if !default.is(PyEllipsis::get(py)) {
            keywords.set_item("default", default)?;
        }
        class.call((name, class.getattr(kind)?), Some(&keywords))
    };
    let (required, first) = (PyEllipsis::get(py).to_owned().into_any(), operator.first_omissible());
    let described = operator.inputs().enumerate().map(|(position, parameter)| {
        let default = if position < first { required.clone() } else { default(py, parameter)? };
        made(parameter.name, "POSITIONAL_OR_KEYWORD", &default)
    });
    let mut described = described.collect::<PyResult<Vec<_>>>()?;
    if has_out(operator) {
        described.push(made("out", "KEYWORD_ONLY", py.None().bind(py))?);
    }
    inspect.getattr("Signature")?.call1((described,))
}

/// The dtypes of the outputs.
pub(super) fn resolve(
    operator: &Operator,
    dtypes: &[Option<String>],
    ndims: &[Option<usize>],
) -> PyResult<Vec<String>> {
    let dtypes: Vec<Option<DataType>> = dtypes
        .iter()
        .map(|name| name.as_deref().map(str::parse).transpose())
        .collect::<Result<_, dlbridge::Error>>()
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    let described = |input: usize| {
        let dtype = dtypes.get(input).copied().flatten();
        dtype.zip(ndims.get(input).copied().flatten())
    };
    let kernel =
        operator.choose(described).map_err(|error| exception(&error.in_operator(operator.name)))?;
    let outputs = kernel.outputs.iter();
    Ok(outputs.filter_map(|kind| kind.form()).map(|form| form.dtype.to_string()).collect())
}

/// The shapes of the outputs.
pub(super) fn shapes(
    operator: &'static Operator,
    shapes: &[Option<Vec<i64>>],
    attributes: &[Bound<'_, PyAny>],
) -> PyResult<Vec<Option<Vec<i64>>>> {
    let described = |error: dlbridge::Error| PyValueError::new_err(error.to_string());
    // Tensors without data that have the shapes: one element, seen everywhere.
    let element = [0_u8];
    let one = TensorRef::from(&element);
    let mut values = Vec::new();
    for (position, parameter) in operator.inputs().enumerate() {
        let shape = shapes.get(position).and_then(Option::as_deref);
        values.push(match (parameter.kind, shape) {
            (Kind::Int, _) => match attributes.get(position) {
                Some(value) => Value::Int(value.extract()?),
                None => Value::None,
            },
            (_, Some(shape)) => {
                let extents = shape.iter().map(|extent| usize::try_from(*extent));
                let extents: Vec<usize> = extents
                    .collect::<Result<_, _>>()
                    .map_err(|_| PyValueError::new_err("an extent is negative"))?;
                let empty = one.reshape([]).map_err(described)?;
                Value::of(empty.broadcast_to(extents).map_err(described)?)
            }
            _ => Value::None,
        });
    }
    let found = operator.output_shapes(&values);
    found
        .map(|shapes| shapes.iter().map(|shape| shape.extents().map(<[i64]>::to_vec)).collect())
        .map_err(|error| exception(&error.in_operator(operator.name)))
}

/// The shapes of the outputs and the required equalities, as tuples that `extents.py` computes.
pub(super) fn expressions<'py>(
    py: Python<'py>,
    operator: &Operator,
) -> PyResult<Bound<'py, PyTuple>> {
    let shapes = operator.shapes.iter().map(|shape| match shape {
        Shape::Like(input) => ("like", *input).into_bound_py_any(py),
        Shape::Parts(parts) => ("parts", all(py, parts)?).into_bound_py_any(py),
        Shape::Function(_) => ("function",).into_bound_py_any(py),
        Shape::Dynamic => Ok(py.None().into_bound(py)),
    });
    let shapes: Vec<_> = shapes.collect::<PyResult<_>>()?;
    let requires = operator.requires.iter().map(|require| {
        (all(py, require.left)?, all(py, require.right)?, require.text).into_bound_py_any(py)
    });
    let requires: Vec<_> = requires.collect::<PyResult<_>>()?;
    (shapes, requires).into_pyobject(py)
}

fn all<'py>(py: Python<'py>, parts: &[Part]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let part = |part: &Part| match part {
        Part::One(one) => ("one", extent(py, one)?).into_bound_py_any(py),
        Part::Axes { input, from, to } => ("axes", *input, *from, *to).into_bound_py_any(py),
    };
    parts.iter().map(part).collect()
}

fn extent<'py>(py: Python<'py>, expression: &Extent) -> PyResult<Bound<'py, PyAny>> {
    let both = |sign: &str, left, right| {
        (sign, extent(py, left)?, extent(py, right)?).into_bound_py_any(py)
    };
    match expression {
        Extent::Number(number) => ("number", *number).into_bound_py_any(py),
        Extent::Axis { input, axis } => ("axis", *input, *axis).into_bound_py_any(py),
        Extent::Attribute(input) => ("attribute", *input).into_bound_py_any(py),
        Extent::Add(left, right) => both("+", left, right),
        Extent::Subtract(left, right) => both("-", left, right),
        Extent::Multiply(left, right) => both("*", left, right),
        Extent::Divide(left, right) => both("//", left, right),
    }
}
