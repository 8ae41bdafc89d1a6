//! Refusals of objects whose protocol is a feature that the extension is built without.

use dlbridge::DataType;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyString};

use super::array_interface::Interface;
use super::typestr::ElementType;
use super::{Lacking, Method, Protocol, kind, typestr};
use crate::error::type_name;

/// True in an extension that is built without one of the protocols.
const IS_ANY_LEFT_OUT: bool =
    !cfg!(all(feature = "array-interface", feature = "buffer", feature = "arrow"));

/// The refusal of an object whose protocol is left out. If the array interface says what keeps any build from importing the
/// object, that is the refusal.
pub(super) fn refusal(protocol: Protocol, object: &Bound<'_, PyAny>) -> PyErr {
    match found_and_remedy(protocol, object) {
        Ok((found, remedy)) => marked(protocol, object, &found, &remedy),
        Err(error) => error,
    }
}

/// Finds the property of an object that needs the protocol, and the remedy.
fn found_and_remedy(protocol: Protocol, object: &Bound<'_, PyAny>) -> PyResult<(String, String)> {
    let py = object.py();
    let method = match protocol {
        Protocol::ArrayInterface => Some(Method::ArrayInterface),
        Protocol::CudaArrayInterface => Some(Method::CudaArrayInterface),
        _ => None,
    };
    let fields = method.map(|method| method.of(object, Lacking::UNKNOWN)).transpose()?.flatten();
    if let Some(fields) = fields
        && let Some(of_array) = of_interface(&Interface::new(object, fields)?)?
        && kind::is_instance(object, intern!(py, "numpy"), intern!(py, "ndarray"))?
    {
        return Ok(of_array);
    }
    let found = format!("{}, which this extension is built without", protocol.words());
    Ok((found, "convert the object to a plain array of NumPy first".to_owned()))
}

/// Finds the property of NumPy's array that DLPack lacks, and the remedy; `None` if the array interface shows none.
fn of_interface(interface: &Interface<'_, '_>) -> PyResult<Option<(String, String)>> {
    let ElementType { dtype, byte_swapped } = interface.element_type()?;
    let is_whole = |stride: isize| stride % dtype.itemsize().max(1) as isize == 0;
    let strides = interface.byte_strides(interface.shape()?.len())?;
    let (found, remedy) = if byte_swapped {
        ("elements in the other byte order".to_owned(), "x.astype(x.dtype.newbyteorder('='))")
    } else if typestr::kind_of(dtype).is_none() {
        (format!("elements of the dtype {dtype}"), "x.astype('float32')")
    } else if !strides.into_iter().flatten().all(is_whole) {
        ("strides that are not whole elements".to_owned(), "x.copy()")
    } else {
        return Ok(None);
    };
    Ok(Some((format!("{found}, which its __dlpack__ cannot export"), format!("pass {remedy}"))))
}

/// The name of the attribute of the exceptions of this module, which has the feature.
fn mark(py: Python<'_>) -> &Bound<'_, PyString> {
    intern!(py, "_dlbridge_pyo3_feature")
}

/// The refusal that names the feature, with the attribute that [`is_left_out`] looks for.
fn marked(protocol: Protocol, object: &Bound<'_, PyAny>, found: &str, remedy: &str) -> PyErr {
    let py = object.py();
    let feature = protocol.missing_feature().unwrap_or_default();
    let error = PyBufferError::new_err(format!(
        "'{}' object has {found}; build the extension with the feature `{feature}` of dlbridge-pyo3, or {remedy}",
        type_name(object),
    ));
    match error.value(py).setattr(mark(py), feature) {
        Ok(()) => error,
        Err(failure) => failure,
    }
}

/// Returns true for the refusal of an object whose protocol is left out.
pub(crate) fn is_left_out(error: &PyErr) -> bool {
    let is_marked = |py: Python<'_>| {
        error.is_instance_of::<PyBufferError>(py)
            && error.value(py).hasattr(mark(py)).unwrap_or(false)
    };
    IS_ANY_LEFT_OUT && Python::attach(is_marked)
}

/// The dtype, the extents and the read-only flag that an import of a NumPy scalar, `bytes` or a `bytearray` would find; `None` for
/// other objects.
pub(crate) fn scalar_or_bytes(
    object: &Bound<'_, PyAny>,
) -> PyResult<Option<(DataType, Vec<i64>, bool)>> {
    let py = object.py();
    if object.is_instance_of::<PyBytes>() || object.is_instance_of::<PyByteArray>() {
        let is_read_only = object.is_instance_of::<PyBytes>();
        return Ok(Some((DataType::UINT8, vec![object.len()? as i64], is_read_only)));
    }
    if !kind::is_instance(object, intern!(py, "numpy"), intern!(py, "generic"))? {
        return Ok(None);
    }
    let name = object.getattr(intern!(py, "dtype"))?.getattr(intern!(py, "name"))?;
    let dtype = name.extract::<String>()?.parse::<DataType>();
    Ok(dtype.ok().map(|dtype| (dtype, Vec::new(), true)))
}
