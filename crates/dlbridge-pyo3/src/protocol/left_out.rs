//! Refusals of objects that need a protocol that the extension is built without.

use dlbridge::{CopyReason, DataType};
use pyo3::exceptions::{PyBufferError, PyException};
use pyo3::prelude::*;
use pyo3::types::{PyMemoryView, PyString, PyTuple};

use super::array_interface::Interface;
use super::typestr::ElementType;
use super::{arrow, buffer, buffer_format, typestr};
use crate::classes::{self, attribute};
use crate::error::type_name;
use crate::imported::Protocol;

/// True in an extension that is built without one of the protocols.
const IS_ANY_LEFT_OUT: bool =
    !cfg!(all(feature = "array-interface", feature = "buffer", feature = "arrow"));

/// The refusal of an object whose protocol the extension lacks. If the array interface shows a reason that keeps
/// every build from importing the object, that reason is the refusal.
#[cold]
pub(crate) fn refusal(protocol: Protocol, object: &Bound<'_, PyAny>) -> PyErr {
    match found_and_remedy(protocol, object) {
        Ok((found, remedy)) => marked(protocol, object, &found, &remedy),
        Err(error) => error,
    }
}

/// Finds the property of an object that needs the protocol, and the remedy.
fn found_and_remedy(protocol: Protocol, object: &Bound<'_, PyAny>) -> PyResult<(String, String)> {
    let py = object.py();
    let fields = match protocol {
        Protocol::ArrayInterface => attribute(object, intern!(py, "__array_interface__"))?,
        Protocol::CudaArrayInterface => attribute(object, intern!(py, "__cuda_array_interface__"))?,
        _ => None,
    };
    if let Some(fields) = fields
        && let Some(of_array) = of_interface(&Interface::new(object, fields)?)?
        && classes::is_instance(object, intern!(py, "numpy"), intern!(py, "ndarray"))?
    {
        return Ok(of_array);
    }
    if protocol == Protocol::Arrow {
        // The refusal of a column that no build can import.
        arrow::described(object)?;
    }
    let found = format!("{}, which this extension is built without", protocol.words());
    Ok((found, "convert the object to a plain array of NumPy first".to_owned()))
}

/// Finds the property of a NumPy array that DLPack lacks, and the remedy; `None` if the array interface shows none.
fn of_interface(interface: &Interface<'_, '_>) -> PyResult<Option<(String, String)>> {
    let ElementType { dtype, byte_swapped } = interface.element_type()?;
    let is_whole = |stride: isize| stride % dtype.itemsize().max(1) as isize == 0;
    let strides = interface.byte_strides(interface.shape()?.len())?;
    let (found, remedy) = if byte_swapped {
        ("elements in the other byte order".to_owned(), "x.astype(x.dtype.newbyteorder('='))")
    } else if typestr::kind_of(dtype).is_none() {
        (format!("elements of the dtype {dtype}"), "x.astype('float32')")
    } else if !strides.into_iter().flatten().all(is_whole) {
        ("strides that are not multiples of the element size".to_owned(), "x.copy()")
    } else {
        return Ok(None);
    };
    Ok(Some((format!("{found}, which its __dlpack__ cannot export"), format!("pass {remedy}"))))
}

/// The name of the attribute on this module's exceptions, which holds the feature.
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

/// Returns true for the refusal of an object whose protocol the extension lacks.
pub(crate) fn is_left_out(error: &PyErr) -> bool {
    let is_marked = |py: Python<'_>| {
        error.is_instance_of::<PyBufferError>(py)
            && error.value(py).hasattr(mark(py)).unwrap_or(false)
    };
    IS_ANY_LEFT_OUT && Python::attach(is_marked)
}

/// The tensor that an import would return, as far as the object describes it.
pub(crate) struct Described {
    pub(crate) dtype: DataType,
    pub(crate) shape: Vec<i64>,
    pub(crate) is_read_only: bool,
    pub(crate) reason: Option<CopyReason>,
}

/// Describes the tensor that an extension with all protocols would import; `None` if the object does not describe it.
#[cold]
#[inline(never)]
pub(crate) fn described(object: &Bound<'_, PyAny>) -> PyResult<Option<Described>> {
    let py = object.py();
    let (dtype, shape, is_read_only) =
        if classes::is_instance(object, intern!(py, "numpy"), intern!(py, "generic"))? {
            let name = object.getattr(intern!(py, "dtype"))?.getattr(intern!(py, "name"))?;
            let Ok(dtype) = name.extract::<String>()?.parse() else { return Ok(None) };
            (dtype, vec![], true)
        } else if let Some(fields) = attribute(object, intern!(object.py(), "__array_interface__"))?
        {
            let interface = Interface::new(object, fields)?;
            (interface.element_type()?.dtype, interface.shape()?, false)
        } else if buffer::is_supported(object) {
            let view = PyMemoryView::from(object)?;
            let attribute = |name: &str| view.getattr(name);
            let format = attribute("format")?.extract::<String>()?;
            let itemsize = attribute("itemsize")?.extract()?;
            let Ok((dtype, _)) = buffer_format::parse(format.as_bytes(), itemsize) else {
                return Ok(None);
            };
            let shape = attribute("shape")?.cast_into::<PyTuple>()?;
            (dtype, shape.extract()?, attribute("readonly")?.is_truthy()?)
        } else {
            return of_column(object);
        };
    let shape = shape.into_iter().map(|extent| extent as i64).collect();
    Ok(Some(Described { dtype, shape, is_read_only, reason: None }))
}

/// Describes the tensor of an Arrow column; `None` if the column does not describe it.
fn of_column(object: &Bound<'_, PyAny>) -> PyResult<Option<Described>> {
    let Some(elements) = arrow::described(object)? else { return Ok(None) };
    let length = match object.len() {
        Ok(length) => length,
        Err(error) if error.is_instance_of::<PyException>(object.py()) => return Ok(None),
        Err(error) => return Err(error),
    };
    let (dtype, reason) = match elements {
        Some(dtype) => (dtype, None),
        None => (DataType::BOOL, Some(CopyReason::BitPacked)),
    };
    Ok(Some(Described { dtype, shape: vec![length as i64], is_read_only: true, reason }))
}
