//! Objects without a protocol: how to recognise and refuse them.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{
    PyCapsule, PyComplex, PyFloat, PyInt, PyList, PyModule, PyString, PyTuple, PyType,
};

use super::protocols::{self, ORDER};
use crate::copies;
use crate::error::type_name;
use crate::frameworks;
use crate::imported::Protocol;
use crate::protocol::{Lacking, TypeInfo, buffer, type_info};

/// Returns true if objects of this type never have a protocol, by the cached facts about the type.
pub(crate) fn never_has_protocol(object: &Bound<'_, PyAny>, type_info: &TypeInfo) -> bool {
    type_info.table.is_none()
        && type_info.lacking.is_all_for_ever()
        && !buffer::is_supported(object)
        && !object.is_instance_of::<PyCapsule>()
}

/// Returns true if an object has any protocol.
pub(crate) fn has_protocol(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let type_info = type_info::of(object)?;
    let lacking = type_info.lacking.now(object.py())?;
    for protocol in ORDER {
        if protocols::has(protocol, object, &type_info, lacking)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if an object has a protocol; ignores the cached facts about its type.
pub(crate) fn has(object: &Bound<'_, PyAny>, protocol: Protocol) -> PyResult<bool> {
    protocols::has(protocol, object, &*type_info::of(object)?, Lacking::UNKNOWN)
}

/// The refusal of an object that lacks all these protocols.
#[cold]
pub(super) fn refusal(object: &Bound<'_, PyAny>, looked_for: &[Protocol]) -> PyErr {
    let name = type_name(object);
    let mut names = Vec::new();
    for protocol in looked_for {
        let name = protocol.words();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let is_path = match object.hasattr(intern!(object.py(), "__fspath__")) {
        Err(error) if copies::must_be_raised(object.py(), &error) => return error,
        found => found.unwrap_or(false),
    };
    let of_framework = frameworks::remedy(object);
    let remedy = match (of_framework.as_deref(), looked_for.len()) {
        (Some(remedy), _) => remedy,
        _ if name == "dlbridge.shared.SharedTensor" => "pass its tensor: asdlpack(shared.tensor)",
        (None, 1) => "leave out protocol to look for the others",
        _ if object.is_none() => "pass a tensor",
        _ if object.is_instance_of::<PyModule>() || object.is_instance_of::<PyType>() => {
            "pass an array or tensor, not a module or a class"
        }
        _ if object.is_instance_of::<PyString>() => {
            "encode text with text.encode(), or open the file first, for example with PIL.Image.open(path)"
        }
        _ if is_path => "open the file first, for example with PIL.Image.open(path)",
        _ if object.is_instance_of::<PyList>()
            || object.is_instance_of::<PyTuple>()
            || object.is_instance_of::<PyFloat>()
            || object.is_instance_of::<PyInt>()
            || object.is_instance_of::<PyComplex>() =>
        {
            "make an array of it first: asdlpack(numpy.asarray(obj))"
        }
        _ => "pass an array or tensor of its elements",
    };
    PyTypeError::new_err(format!(
        "'{name}' object supports no exchange protocol: looked for {}; {remedy}",
        names.join(", ")
    ))
}
