//! The import for code that works on a device: the data, and the stream that it is synchronised with.

use std::ffi::c_void;
use std::ptr;

use dlbridge::Device;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::{Checks, Depth, hub, import_as_it_is, instead};
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::protocol::dlpack::{claimed_device, disagreement};
use crate::protocol::{TypeInfo, type_info};
use crate::stream::{DataStream, Kind, StreamOf, kind};

/// Imports an object with the handle of a stream; work on that stream runs after the producer's pending writes. It is
/// the stream that the caller chooses. Without a choice, it is the producer's if its exchange API reports one, or
/// else the device's default stream. `None` for an object without a protocol.
pub(crate) fn on_device(
    object: &Bound<'_, PyAny>,
    choice: Option<StreamOf>,
) -> PyResult<Option<(Imported, *mut c_void)>> {
    let _depth = Depth::enter()?;
    let type_info = type_info::of(object)?;
    if choice.is_none()
        && let Some(answer) = on_work_stream(object, &type_info)?
    {
        return Ok(Some(answer));
    }
    let stream = |device| choice.map_or(Ok(ptr::null_mut()), |stream_of| stream_of(device));
    if type_info.head.is_none() {
        let claimed = claimed_device(object).map_err(|refusal| explained(object, refusal))?;
        if let Some(device) = claimed.filter(|&device| is_on_device(device)) {
            return synchronised(object, device, stream(device)?).map(Some);
        }
    }
    let options = ImportOptions::default();
    let Some(imported) = import_as_it_is(object, &type_info, &options)? else { return Ok(None) };
    let device = imported.tensor.device();
    if !is_on_device(device) {
        return Ok(Some((imported, ptr::null_mut())));
    }
    if object.is_instance_of::<PyCapsule>() {
        return Err(PyBufferError::new_err(format!(
            "the data is on {device}, and a capsule cannot synchronise with a stream; pass \
             the object that makes it"
        )));
    }
    let stream = stream(device)?;
    // By the standard, a producer that is not asked synchronises with the default stream.
    match imported.protocol != Protocol::ExchangeApi && stream.is_null() {
        true => Ok(Some((imported, stream))),
        false => synchronised(object, device, stream).map(Some),
    }
}

fn is_on_device(device: Device) -> bool {
    !device.device_type().is_host_accessible()
}

/// Imports data on a device by the package, which synchronises it, and keeps it until the stream has finished its work.
fn synchronised(
    object: &Bound<'_, PyAny>,
    device: Device,
    stream: *mut c_void,
) -> PyResult<(Imported, *mut c_void)> {
    let number = number(object.py(), device, stream)?;
    let imported = hub::import(object, &ImportOptions::default(), None, number.as_ref())?;
    // The stream belongs to the device that the producer reported.
    match imported.tensor.device() {
        found if found == device => Ok((imported, stream)),
        found => Err(disagreement(device, found)),
    }
}

/// The package's refusal of an object, if it gives one, or else the producer's.
#[cold]
fn explained(object: &Bound<'_, PyAny>, refusal: PyErr) -> PyErr {
    let own = refusal.clone_ref(object.py());
    instead(object, &ImportOptions::default(), refusal).err().unwrap_or(own)
}

/// The number of a stream in DLPack; `None` for the default stream of the device.
fn number<'py>(
    py: Python<'py>,
    device: Device,
    stream: *mut c_void,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let handle = stream.addr();
    let wrong = |why: &str| {
        let refusal = format!("the stream for data on {device} is {handle:#x}, {why}");
        Err(PyValueError::new_err(refusal))
    };
    match (kind(device), i64::try_from(handle)) {
        // In DLPack, -1 requests no synchronisation.
        (Some(_), Err(_)) => wrong("which is not a handle"),
        (Some(Kind::Rocm), Ok(1 | 2)) => {
            wrong("which is not a stream of ROCm; its default one is NULL")
        }
        (_, Ok(0)) => Ok(None),
        (Some(_), Ok(_)) => DataStream::of_handle(device, stream).to_object(py, device).map(Some),
        (None, _) => Err(PyBufferError::new_err(format!(
            "a stream is named for data on {device}, and DLPack does not number its streams, so the \
             producer cannot synchronise with it"
        ))),
    }
}

/// Imports an object of a type with a table, without synchronising; `None` for other objects.
fn on_work_stream(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
) -> PyResult<Option<(Imported, *mut c_void)>> {
    let Some(table) = type_info.table.filter(|table| table.has_work_stream()) else {
        return Ok(None);
    };
    let checks = Checks::before(object, type_info)?;
    let imported = table.import(object).map_err(|refusal| explained(object, refusal))?;
    let device = imported.tensor.device();
    let stream = match is_on_device(device) {
        true => table.work_stream(object.py(), device)?,
        false => Some(ptr::null_mut()),
    };
    let Some(stream) = stream else { return Ok(None) };
    Ok(Some((checks.after(imported)?, stream)))
}
