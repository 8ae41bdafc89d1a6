//! Arguments of a Python call, each with its parameter.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use smallvec::SmallVec;

use crate::operator::Operator;

/// Returns true if the keyword `out` means the tensors to fill: no input has this name.
pub(super) fn has_out(operator: &Operator) -> bool {
    operator.outputs().next().is_some() && !operator.inputs().any(|input| input.name == "out")
}

/// The tensors that the caller wants filled: one, or a tuple or list of them.
pub(super) fn outs<'py>(
    operator: &Operator,
    out: &Bound<'py, PyAny>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let is_several = out.is_instance_of::<PyTuple>() || out.is_instance_of::<PyList>();
    let tensors: Vec<_> = match is_several {
        true => out.try_iter()?.collect::<PyResult<_>>()?,
        false => vec![out.clone()],
    };
    let (expected, found) = (operator.outputs().count(), tensors.len());
    if found != expected {
        let message =
            format!("{}: out must have {expected} tensors, but has {found}", operator.name);
        return Err(PyTypeError::new_err(message));
    }
    Ok(tensors)
}

/// The only result, or a tuple of all.
pub(super) fn single<'py>(
    py: Python<'py>,
    mut results: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    match results.len() {
        1 => Ok(results.remove(0)),
        _ => Ok(PyTuple::new(py, results)?.into_any()),
    }
}

/// The arguments of a call.
pub(super) struct Arguments<'py> {
    /// For each parameter that is not an output; `None` if the caller omits it.
    pub(super) values: SmallVec<[Option<Bound<'py, PyAny>>; 6]>,
    /// The tensors to fill, if the caller passes them.
    pub(super) out: Option<Bound<'py, PyAny>>,
}

impl<'py> Arguments<'py> {
    pub(super) fn bind(
        operator: &Operator,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let expected = operator.inputs().count();
        let refused = |what: String| PyTypeError::new_err(format!("{}: {what}", operator.name));
        if arguments.len() > expected {
            let found = arguments.len();
            return Err(refused(format!(
                "{expected} arguments are expected, but there are {found}"
            )));
        }
        let mut values: SmallVec<[Option<Bound<'py, PyAny>>; 6]> =
            arguments.iter().map(Some).collect();
        values.resize(expected, None);
        let mut out = None;
        for (name, value) in keywords.into_iter().flatten() {
            // A name that is no text, such as half of a surrogate pair, is that of no parameter.
            let name = name.str()?.to_string_lossy().into_owned();
            match operator.inputs().position(|parameter| parameter.name == name) {
                Some(position) if values[position].is_some() => {
                    return Err(refused(format!("{name} is passed two times")));
                }
                Some(position) => values[position] = Some(value),
                None if name == "out" => out = Some(value).filter(|value| !value.is_none()),
                None => return Err(refused(format!("there is no parameter {name}"))),
            }
        }
        for (parameter, value) in operator.inputs().zip(&mut values) {
            if value.as_ref().is_some_and(|value| value.is_none()) && parameter.default.is_none() {
                *value = None;
            }
            if value.is_none() && !parameter.is_omissible() {
                return Err(refused(format!("the argument {} is missing", parameter.name)));
            }
        }
        Ok(Self { values, out })
    }
}
