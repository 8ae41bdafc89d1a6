//! `__array_interface__`, import and export: a dictionary with the place and layout of the elements.
//!
//! Source: "The array interface protocol", version 3, in the manual of NumPy.

use std::ffi::c_void;
use std::ptr;

use dlbridge::{Access, CopyReason, Device, Tensor};
use pyo3::exceptions::{
    PyAttributeError, PyBufferError, PyOverflowError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super as typestr;
use crate::import::options::check_on_cpu;
use crate::memory::{MAX_NDIM, Memory, access};
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::{Imported, Protocol};
use dlbridge_pyo3::layout::byte_strides;
use dlbridge_pyo3::protocol::buffer::Buffer;
use dlbridge_pyo3::python::error::repr_in_message;
use dlbridge_pyo3::python::interpreter::PyOwner;
use dlbridge_pyo3::python::objects::attribute;

/// Imports an object that has `__array_interface__`; `None` for an object without it.
pub(crate) fn import(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    let Some(interface) = Interface::of(object, intern!(object.py(), "__array_interface__"))?
    else {
        return Ok(None);
    };
    check_on_cpu(options, "an array interface")?;
    let elements = interface.elements(Protocol::ArrayInterface)?;
    if let Some((address, read_only)) = interface.address()? {
        let data = ptr::with_exposed_provenance_mut(address);
        let memory = Memory { data, access: access(read_only), ..elements };
        let owner = interface.owner()?;
        // SAFETY: the protocol: the memory is valid while the owner lives. The program promises that no code
        // writes while a view is alive (see the documentation of `dlbridge-pyo3`).
        return unsafe { memory.import_of(object, owner, options.copy) }.map(Some);
    }
    let (buffer, offset) = interface.buffer()?;
    // Freeing the dictionary may run the producer's code, which may keep the bytes, so the references are counted
    // afterwards.
    drop(interface);
    let made_for_us = buffer.is_of_bytes_without_another_reference(object.py());
    if made_for_us && options.copy == Some(false) {
        return Err(PyBufferError::new_err(
            "the object copies its data in each export of its array interface, and copy=False forbids that; leave \
             copy=False out, or pass protocol='arrow' too, which may share the data in another shape",
        ));
    }
    let access = match made_for_us {
        true => Access::Exclusive,
        false => access(buffer.is_read_only()),
    };
    let memory = Memory { data: buffer.data().wrapping_byte_add(offset), access, ..elements };
    check_within(buffer.nbytes(), offset, &memory)?;
    // SAFETY: the elements are within the buffer (`check_within`), which is locked while the owner lives. The
    // program promises that no code writes while a view is alive (see the documentation of `dlbridge-pyo3`). If the access
    // is exclusive, the buffer has the only reference to the bytes, so nothing else can reach them.
    let imported = unsafe { memory.import(buffer, options.copy) }?;
    let reason = imported.reason.or(made_for_us.then_some(CopyReason::Producer));
    Ok(Some(Imported { reason, ..imported }))
}

/// The dictionary, and its object. CUDA's dictionaries are similar.
pub(super) struct Interface<'a, 'py> {
    object: &'a Bound<'py, PyAny>,
    fields: Bound<'py, PyDict>,
}

impl<'a, 'py> Interface<'a, 'py> {
    /// The dictionary in an attribute of an object; `None` without the attribute.
    pub(super) fn of(
        object: &'a Bound<'py, PyAny>,
        name: &Bound<'py, PyString>,
    ) -> PyResult<Option<Self>> {
        let Some(fields) = attribute(object, name)? else { return Ok(None) };
        let fields = fields.cast_into::<PyDict>().map_err(|error| {
            PyBufferError::new_err(format!(
                "the array interface must be a dictionary, not {}",
                error.into_inner()
            ))
        })?;
        let interface = Self { object, fields };
        if interface.field("mask")?.is_some() {
            return Err(PyBufferError::new_err(
                "the array interface has a mask, which a tensor cannot express; fill the masked \
                 elements first",
            ));
        }
        Ok(Some(interface))
    }

    /// The owner of the memory: the object, and the dictionary, because a NumPy scalar keeps in it the array that it
    /// made for it.
    pub(super) fn owner(&self) -> PyResult<PyOwner> {
        let both = PyTuple::new(self.fields.py(), [self.object, self.fields.as_any()])?;
        PyOwner::new(both.as_any())
    }

    /// A field that is present and not `None`.
    pub(super) fn field(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.fields.get_item(name)?.filter(|value| !value.is_none()))
    }

    /// The refusal of a field's value.
    pub(super) fn wrong(&self, name: &str, expected: &str) -> PyErr {
        let found = match self.fields.get_item(name) {
            Ok(Some(found)) => repr_in_message(&found),
            Ok(None) => "nothing".to_owned(),
            Err(error) => return error,
        };
        PyBufferError::new_err(format!(
            "the array interface's {name} must be {expected}, not {found}"
        ))
    }

    /// The refusal of a value that could not be converted; exceptions that the value itself raised are passed on.
    fn not(&self, error: PyErr, name: &str, expected: &str) -> PyErr {
        let py = self.object.py();
        let told = error.is_instance_of::<PyTypeError>(py)
            || error.is_instance_of::<PyValueError>(py)
            || error.is_instance_of::<PyOverflowError>(py);
        if told { self.wrong(name, expected) } else { error }
    }

    /// The elements, without their address and its access.
    pub(super) fn elements(&self, protocol: Protocol) -> PyResult<Memory> {
        const EXPECTED: &str = "a tuple of non-negative integers";
        let shape = self.numbers("shape", EXPECTED)?;
        let shape = shape.ok_or_else(|| self.wrong("shape", EXPECTED))?;
        if shape.len() > MAX_NDIM || shape.iter().any(|&extent| extent < 0) {
            return Err(self.wrong("shape", "at most 64 non-negative integers"));
        }
        // Read once: a lookup in the dictionary may run code that changes it.
        let byte_strides = self.numbers("strides", "None or a tuple of integers")?;
        let ndim = shape.len();
        if byte_strides.as_ref().is_some_and(|strides| strides.len() != ndim) {
            return Err(self.wrong("strides", &format!("one number for each of {ndim} axes")));
        }
        let typestr = self.field("typestr")?.and_then(|value| value.extract::<String>().ok());
        let typestr = typestr.ok_or_else(|| self.wrong("typestr", "a string like '<f4'"))?;
        let (order, kind, size) = typestr::parse(self.object, &typestr)?;
        let (dtype, byte_swapped) = typestr::element_type(self.object, order, kind, size)?;
        let (data, device, access) = (ptr::null_mut(), Device::CPU, Access::ReadOnly);
        Ok(Memory { protocol, data, dtype, byte_swapped, shape, byte_strides, device, access })
    }

    fn numbers(&self, name: &str, expected: &str) -> PyResult<Option<Vec<isize>>> {
        let Some(value) = self.field(name)? else { return Ok(None) };
        let tuple = value.cast_into::<PyTuple>().map_err(|_| self.wrong(name, expected))?;
        tuple.extract().map(Some).map_err(|error| self.not(error, name, expected))
    }

    /// The address and whether it is read-only, if the field `data` is such a pair.
    pub(super) fn address(&self) -> PyResult<Option<(usize, bool)>> {
        let Some(data) = self.field("data")? else { return Ok(None) };
        let Ok(pair) = data.cast::<PyTuple>() else { return Ok(None) };
        let wrong = |error| self.not(error, "data", "an address and a bool");
        let (address, read_only) = pair.extract::<(usize, Bound<'_, PyAny>)>().map_err(wrong)?;
        Ok(Some((address, read_only.is_truthy()?)))
    }

    /// The locked buffer that has the elements, and the offset of the first one in bytes.
    fn buffer(&self) -> PyResult<(Buffer, usize)> {
        let data = self.field("data")?;
        let exporter = data.as_ref().unwrap_or(self.object);
        let buffer = Buffer::get(exporter).map_err(|error| {
            match error.is_instance_of::<PyTypeError>(exporter.py()) {
                true => self.wrong("data", "an address and a bool, or an object with a buffer"),
                false => error,
            }
        })?;
        let offset = match self.field("offset")? {
            Some(offset) => {
                offset.extract().map_err(|e| self.not(e, "offset", "a non-negative integer"))?
            }
            None => 0,
        };
        Ok((buffer, offset))
    }
}

/// Refuses elements outside a buffer of `len` bytes, in which the first one is at `offset`.
fn check_within(len: usize, offset: usize, memory: &Memory) -> PyResult<()> {
    let Some(bytes) = memory.byte_range() else { return Ok(()) };
    let from_start = |byte: i128| byte.saturating_add(offset as i128);
    let (lowest, end) = (from_start(bytes.start), from_start(bytes.end));
    if lowest >= 0 && end <= len as i128 {
        return Ok(());
    }
    Err(PyBufferError::new_err(format!(
        "the array interface's elements are at bytes {lowest} to {end} of a buffer that has {len}"
    )))
}

/// The dictionary over a tensor; `AttributeError` if the tensor has none.
pub(crate) fn export<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    read_only: bool,
) -> PyResult<Bound<'py, PyDict>> {
    if !tensor.device().device_type().is_host_accessible() {
        return Err(PyAttributeError::new_err(format!(
            "__array_interface__: the data is on {}",
            tensor.device()
        )));
    }
    fields(py, tensor, read_only)
}

/// The fields that CUDA's interface has too.
pub(super) fn fields<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    read_only: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let typestr = typestr::of_dtype(tensor.dtype()).ok_or_else(|| {
        PyAttributeError::new_err(format!(
            "an array interface cannot express the dtype {}",
            tensor.dtype()
        ))
    })?;
    let address = tensor.data().cast::<c_void>().expose_provenance();
    let fields = PyDict::new(py);
    fields.set_item("version", 3)?;
    fields.set_item("typestr", typestr)?;
    fields.set_item("shape", PyTuple::new(py, tensor.shape())?)?;
    fields.set_item("data", (address, read_only))?;
    let strides = match tensor.is_c_contiguous() {
        true => None,
        false => Some(PyTuple::new(py, byte_strides(tensor))?),
    };
    fields.set_item("strides", strides)?;
    Ok(fields)
}
