//! Arguments of a Python call, each with its parameter.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;

use crate::operator::Operator;
use crate::parameter::Kind;

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
            let may_lack =
                parameter.default.is_some() || matches!(parameter.kind, Kind::Optional(_));
            if value.is_none() && !may_lack {
                return Err(refused(format!("the argument {} is missing", parameter.name)));
            }
        }
        Ok(Self { values, out })
    }
}
