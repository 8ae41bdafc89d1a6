//! Request: tries one protocol after another.

use dlbridge::{Device, DeviceType};
use dlbridge_gpu::Driver;
use dlbridge_pyo3::frameworks::ORDER;
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::{Imported, Protocol};
use dlbridge_pyo3::protocol::TypeInfo;
use dlbridge_pyo3::protocol::exchange_api::Table;
use dlbridge_pyo3::python::copies;
use dlbridge_pyo3::python::error::type_name;
use dlbridge_pyo3::python::objects::attribute;
use dlbridge_pyo3::stream::{DataStream, has_streams};
use pyo3::exceptions::{PyBufferError, PyException, PyRecursionError, PyTypeError};
use pyo3::prelude::*;

use super::{ImportRequest, buffer, dlpack, is_on_device};
use crate::arrow;
use crate::class::buffer_export::format_of;
use crate::device::{self, Streams, is_possible};
use crate::frameworks::advice;
use crate::frameworks::explain::explained;
use crate::interfaces::{array_interface, array_struct, cuda_array_interface};

impl<'py> ImportRequest<'_, 'py> {
    /// Requests the tensor; `None` from an object without any of the protocols. If the producer refuses to export it
    /// to the requested device and a driver can copy it there, requests it on its own device.
    pub(super) fn request(&self, type_info: &TypeInfo) -> PyResult<Option<Imported>> {
        let Self { object, options, streams } = self;
        let refusal = match self.first(type_info, options, *streams) {
            Err(refusal) if self.may_export_elsewhere(&refusal)? => refusal,
            received => return received,
        };
        let options_there = ImportOptions { device: None, copy: None, ..**options };
        // The caller's stream belongs to the target device, if that has streams.
        let is_targets = options.device.is_some_and(has_streams);
        let streams = if is_targets { Streams::default() } else { *streams };
        match self.first(type_info, &options_there, streams) {
            Ok(Some(imported)) => {
                let found = imported.tensor.device();
                let is_within_reach = is_possible(found, options.device.unwrap_or(found));
                if is_within_reach { Ok(Some(imported)) } else { Err(refusal) }
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
        streams: Streams<'_, 'py>,
    ) -> PyResult<Option<Imported>> {
        let object = self.object;
        let explained = |error| explained(object, &type_info.checks, error);
        if let Some(protocol) = options.protocol {
            return import(protocol, object, type_info, options, streams).map_err(explained);
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
                    imported.map_err(explained).map(Some)
                }
                Err(error) => Err(explained(error)),
            };
        }
        Ok(None)
    }

    /// Returns true if a producer that refused may still export its data on its own device, from which the CUDA
    /// driver may copy it.
    fn may_export_elsewhere(&self, refusal: &PyErr) -> PyResult<bool> {
        let Self { object, options, .. } = self;
        // Memory of the CPU is copied on the CPU without a driver.
        let by_driver = match options.device {
            Some(Device::CPU) => is_on_device(object)?,
            Some(device) => has_streams(device),
            None => options.copy == Some(true) && is_on_device(object)?,
        };
        Ok(by_driver
            && options.copy != Some(false)
            && refusal.is_instance_of::<PyBufferError>(object.py())
            && Driver::of(DeviceType::CUDA).is_ok())
    }
}

/// Imports through one protocol; `None` if the object does not have it.
fn import<'py>(
    protocol: Protocol,
    object: &Bound<'py, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
    streams: Streams<'_, 'py>,
) -> PyResult<Option<Imported>> {
    match protocol {
        Protocol::ExchangeApi => match type_info.table {
            // SAFETY: `ImportRequest::run` found these facts by the object's type.
            Some(table) => unsafe { import_by_table(table, object, options, streams) },
            None => Ok(None),
        },
        Protocol::Dlpack => dlpack::import(object, options, streams),
        Protocol::LegacyDlpack => dlpack::import_legacy(object, options, streams),
        Protocol::CudaArrayInterface => cuda_array_interface::import(object, options, streams),
        Protocol::ArrayInterface => array_interface::import(object, options),
        Protocol::ArrayStruct => array_struct::import(object, options),
        Protocol::Buffer => buffer::import(object, options),
        Protocol::Arrow => arrow::import(object, type_info, options, None),
        // No protocol is left.
        _ => Ok(None),
    }
}

/// Returns true if the exchange table of a type can meet the options. The protocols choose what copies to a device, and
/// the library of the object makes a requested copy.
pub(super) fn may_use_table(options: &ImportOptions) -> bool {
    options.protocol.is_none() && options.device.is_none() && options.copy != Some(true)
}

/// Imports an object by the exchange table of its type. The table does not synchronise streams: for data on a device, the
/// caller's stream waits for the stream that the table reports. `None` if that is not possible and the object has
/// `__dlpack__`, which synchronises.
///
/// # Safety
/// The table is that of the object's type.
pub(super) unsafe fn import_by_table<'py>(
    table: Table,
    object: &Bound<'py, PyAny>,
    options: &ImportOptions,
    streams: Streams<'_, 'py>,
) -> PyResult<Option<Imported>> {
    // SAFETY: the caller promises it.
    let imported = unsafe { table.import_of_type(object) }?;
    let device = imported.tensor.device();
    let is_ready = device.device_type().is_host_accessible()
        || put_in_order(table, device, &streams.on_source(device, options)?, object, options)?;
    Ok(is_ready.then_some(imported))
}

/// Makes the caller's stream wait for the producer's. If that is not possible, returns false for an object that has
/// `__dlpack__` to import it by, and refuses others, and a request for this protocol.
#[cold]
fn put_in_order(
    table: Table,
    device: Device,
    ours: &DataStream,
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
) -> PyResult<bool> {
    let py = object.py();
    if has_streams(device)
        && let Some(handle) = table.work_stream(py, device)?
    {
        let theirs = DataStream::of_handle(device, handle);
        if ours.handle() == theirs.handle() || Driver::of(device.device_type()).is_ok() {
            return device::order(py, device, &theirs, ours).map(|()| true);
        }
    }
    if attribute(object, intern!(py, "__dlpack__"))?.is_some() && options.protocol.is_none() {
        return Ok(false);
    }
    Err(PyBufferError::new_err(format!(
        "the data is on {device}, and the exchange API does not synchronise the pending work \
         there; import it through __dlpack__, which does"
    )))
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
    if !refusal.is_instance_of::<PyException>(py) || refusal.is_instance_of::<PyRecursionError>(py)
    {
        return Err(refusal);
    }
    // The other protocols cannot import from a device, or to one.
    if is_on_device(object)? || options.device.is_some_and(|device| device != Device::CPU) {
        return Err(refusal);
    }
    if attribute(object, intern!(py, "__arrow_c_array__"))?.is_some() {
        // Arrow's own exceptions are not a BufferError, and do not say what to do.
        return match import(Protocol::Arrow, object, type_info, options, Streams::default()) {
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
    // A producer could not have made such a tensor through NumPy.
    let is_beyond_dlpack = |imported: &Imported| {
        imported.reason.is_some() || format_of(imported.tensor.dtype()).is_none()
    };
    for other in [Protocol::ArrayInterface, Protocol::Buffer] {
        match import(other, object, type_info, options, Streams::default()) {
            Ok(Some(imported)) if is_beyond_dlpack(&imported) => return Ok(imported),
            Ok(_) => {}
            Err(error) => {
                // This refusal says more than DLPack's.
                if error.is_instance_of::<PyBufferError>(py) {
                    error.set_cause(py, Some(refusal));
                }
                return Err(error);
            }
        }
    }
    Err(refusal)
}

/// The refusal of an object that lacks a protocol, or all of them.
#[cold]
pub(super) fn refusal(object: &Bound<'_, PyAny>, looked_for: Option<Protocol>) -> PyErr {
    let name = type_name(object);
    let names = match looked_for {
        Some(protocol) => protocol.words().to_owned(),
        None => ORDER.map(Protocol::words).join(", "),
    };
    match advice(object.py(), "refusal", (object, &name, names, looked_for.is_some())) {
        Ok(text) => PyTypeError::new_err(
            text.unwrap_or_else(|| format!("'{name}' object supports no exchange protocol")),
        ),
        Err(error) => error,
    }
}
