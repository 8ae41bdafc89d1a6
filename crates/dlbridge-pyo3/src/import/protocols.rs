//! Request: tries one protocol after another. The package adds those that an extension does not read (`Linked`).

use dlbridge::{Device, DeviceType};
use pyo3::exceptions::{PyBufferError, PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyFloat, PyInt, PyList, PyModule, PyString, PyTuple, PyType};

use super::satisfy::Received;
use super::shortcut::may_use_table;
use super::{ImportRequest, hub};
use crate::classes::attribute;
use crate::copies;
use crate::error::type_name;
use crate::frameworks::ORDER;
use crate::gpu::{self, Driver};
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::protocol::dlpack::is_on_device;
use crate::protocol::storage::storage;
use crate::protocol::{TypeInfo, buffer, buffer_format, dlpack, framework_checks, type_info};
use crate::stream::{self, DataStream, Streams, has_streams};

impl<'py> ImportRequest<'_, 'py> {
    /// Requests the tensor; `None` from an object without any of the protocols. If the producer refuses to export it
    /// to the requested device and a driver can copy it there, requests it on its own device.
    pub(super) fn request(&self, type_info: &TypeInfo) -> PyResult<Option<Received<'py>>> {
        let Self { object, options, streams } = self;
        // Before the request, because other code may give the producer other memory meanwhile; `validate` compares.
        let storage = storage(object, type_info)?;
        let received = |imported| Received { imported, storage };
        let refusal = match self.first(type_info, options, streams) {
            Ok(imported) => return Ok(imported.map(received)),
            Err(refusal) => refusal,
        };
        if !self.may_export_elsewhere(&refusal) {
            return Err(refusal);
        }
        let options_there = ImportOptions { device: None, copy: None, ..**options };
        // The caller's stream belongs to the target device, if that has streams.
        let default = Streams::default();
        let streams = if options.device.is_some_and(has_streams) { &default } else { streams };
        match self.first(type_info, &options_there, streams) {
            Ok(Some(imported)) => {
                let found = imported.tensor.device();
                let is_within_reach = gpu::is_possible(found, options.device.unwrap_or(found));
                if is_within_reach { Ok(Some(received(imported))) } else { Err(refusal) }
            }
            Err(error) if copies::must_be_raised(object.py(), &error) => Err(error),
            _ => Err(refusal),
        }
    }

    /// The tensor by the protocol in the options, or else by the first that the object has.
    fn first(
        &self,
        type_info: &TypeInfo,
        options: &ImportOptions,
        streams: &Streams<'_, 'py>,
    ) -> PyResult<Option<Imported>> {
        let object = self.object;
        // The package has explained its errors.
        let explained = |protocol: Protocol, error| match is_asked(protocol) {
            true => error,
            false => framework_checks::explained(object, &type_info.checks, error),
        };
        if let Some(protocol) = options.protocol {
            return import(protocol, object, type_info, options, streams)
                .map_err(|error| explained(protocol, error));
        }
        // The shortcut has tried the table, and found data on a device with which it cannot synchronise.
        let past_table = self.streams.is_default() && may_use_table(self.options);
        for &protocol in type_info.checks.order {
            if past_table && protocol == Protocol::ExchangeApi {
                continue;
            }
            return match import(protocol, object, type_info, options, streams) {
                Ok(None) => continue,
                Ok(imported) => Ok(imported),
                Err(interrupt) if copies::is_interrupt(object.py(), &interrupt) => Err(interrupt),
                Err(refusal) if protocol == Protocol::Dlpack => {
                    let imported = instead_of_dlpack(object, type_info, options, refusal);
                    imported.map_err(|error| explained(protocol, error)).map(Some)
                }
                Err(error) => Err(explained(protocol, error)),
            };
        }
        Ok(None)
    }

    /// Returns true if a producer that refused may still export its data on its own device, from which the CUDA
    /// driver may copy it.
    fn may_export_elsewhere(&self, refusal: &PyErr) -> bool {
        let Self { object, options, .. } = self;
        // Memory of the CPU is copied on the CPU without a driver.
        let by_driver = match options.device {
            Some(Device::CPU) => is_on_device(object),
            Some(device) => has_streams(device),
            None => options.copy == Some(true) && is_on_device(object),
        };
        by_driver
            && options.copy != Some(false)
            && refusal.is_instance_of::<PyBufferError>(object.py())
            && Driver::of(DeviceType::CUDA).is_ok()
    }
}

/// Imports through one protocol; `None` if the object does not have it.
fn import<'py>(
    protocol: Protocol,
    object: &Bound<'py, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
    streams: &Streams<'_, 'py>,
) -> PyResult<Option<Imported>> {
    match protocol {
        Protocol::ExchangeApi => match type_info.table {
            Some(table) => table.import(object, options, streams),
            None => Ok(None),
        },
        Protocol::Dlpack => dlpack::import(object, options, streams),
        Protocol::LegacyDlpack => dlpack::import_legacy(object, options, streams),
        Protocol::Buffer => buffer::import(object, options),
        Protocol::CudaArrayInterface
        | Protocol::ArrayInterface
        | Protocol::ArrayStruct
        | Protocol::Arrow => match hub::linked() {
            Some(package) => (package.import)(protocol, object, type_info, options, streams),
            None if type_info.checks.is_column() || has(object, protocol)? => {
                let imported = hub::import(object, options, Some(protocol))?;
                let device = imported.tensor.device();
                if has_streams(device) {
                    stream::order(object.py(), device, &DataStream::Default, &streams.on(device)?)?;
                }
                Ok(Some(imported))
            }
            None => Ok(None),
        },
    }
}

/// Returns true if this extension asks the package for a protocol.
fn is_asked(protocol: Protocol) -> bool {
    use Protocol::{Buffer, Dlpack, ExchangeApi, LegacyDlpack};
    !matches!(protocol, ExchangeApi | Dlpack | LegacyDlpack | Buffer) && hub::linked().is_none()
}

/// Requests data by another protocol if `__dlpack__` refused it because DLPack or the producer cannot express it: the
/// other byte order, strides that are not multiples of the element size, dtypes that NumPy does not know, and Arrow
/// columns that are not plain numbers. Any other refusal is final.
fn instead_of_dlpack(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
    refusal: PyErr,
) -> PyResult<Imported> {
    let py = object.py();
    if !refusal.is_instance_of::<PyException>(py) {
        return Err(refusal);
    }
    // The other protocols cannot import from a device, or to one.
    if matches!(dlpack::is_on_host(object), Ok(false))
        || options.device.is_some_and(|device| device != Device::CPU)
    {
        return Err(refusal);
    }
    if attribute(object, intern!(py, "__arrow_c_array__"))?.is_some() {
        // Arrow's own exceptions are not a BufferError, and do not say what to do.
        return match import(Protocol::Arrow, object, type_info, options, &Streams::default()) {
            Ok(imported) => imported.ok_or(refusal),
            Err(error) => {
                error.set_cause(py, Some(refusal));
                Err(error)
            }
        };
    }
    if !refusal.is_instance_of::<PyBufferError>(py) {
        return Err(refusal);
    }
    let mut final_refusal = None;
    for other in [Protocol::ArrayInterface, Protocol::Buffer] {
        match import(other, object, type_info, options, &Streams::default()) {
            Ok(Some(imported)) if is_beyond_dlpack(&imported) => return Ok(imported),
            Ok(_) => {}
            Err(error) if !error.is_instance_of::<PyException>(py) => return Err(error),
            // The next protocol may support it.
            Err(error) if hub::is_missing(&error) && final_refusal.is_none() => {
                final_refusal = Some(error);
            }
            Err(error) => {
                final_refusal = final_refusal.or(Some(error));
                break;
            }
        }
    }
    match final_refusal {
        // This refusal says more than DLPack's.
        Some(error) => {
            if error.is_instance_of::<PyBufferError>(py) {
                error.set_cause(py, Some(refusal));
            }
            Err(error)
        }
        None => Err(refusal),
    }
}

/// Returns true for a tensor that a producer could not have made through NumPy.
fn is_beyond_dlpack(imported: &Imported) -> bool {
    imported.reason.is_some() || buffer_format::of_dtype(imported.tensor.dtype()).is_none()
}

/// Returns true if an object has the methods of a protocol; does not call them.
pub fn has(object: &Bound<'_, PyAny>, protocol: Protocol) -> PyResult<bool> {
    let py = object.py();
    let has = |name| attribute(object, name).map(|found| found.is_some());
    match protocol {
        Protocol::ExchangeApi => Ok(type_info::of(object)?.table.is_some()),
        Protocol::Dlpack | Protocol::LegacyDlpack => has(intern!(py, "__dlpack__")),
        Protocol::CudaArrayInterface => has(intern!(py, "__cuda_array_interface__")),
        Protocol::ArrayInterface => has(intern!(py, "__array_interface__")),
        Protocol::ArrayStruct => has(intern!(py, "__array_struct__")),
        Protocol::Buffer => Ok(buffer::is_supported(object)),
        Protocol::Arrow => Ok(has(intern!(py, "__arrow_c_array__"))?
            || has(intern!(py, "__arrow_c_device_array__"))?
            || has(intern!(py, "__arrow_c_stream__"))?),
    }
}

/// Returns true if an object has any protocol.
pub fn has_protocol(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    for &protocol in type_info::of(object)?.checks.order {
        if has(object, protocol)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The refusal of an object that lacks a protocol, or all of them.
#[cold]
pub fn refusal(object: &Bound<'_, PyAny>, looked_for: Option<Protocol>) -> PyErr {
    let name = type_name(object);
    let names = match looked_for {
        Some(protocol) => protocol.words().to_owned(),
        None => ORDER.map(Protocol::words).join(", "),
    };
    let is_path = match object.hasattr(intern!(object.py(), "__fspath__")) {
        Err(error) if copies::must_be_raised(object.py(), &error) => return error,
        found => found.unwrap_or(false),
    };
    let of_framework = hub::remedy(object);
    let remedy = match (of_framework.as_deref(), looked_for) {
        (Some(remedy), _) => remedy,
        _ if name == "dlbridge.shared.SharedTensor" => "pass its tensor: asdlpack(shared.tensor)",
        (None, Some(_)) => "leave out protocol to look for the others",
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
        names
    ))
}
