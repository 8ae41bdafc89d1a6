//! The import for code that works on a device: the data, and the stream that it is synchronised with.

use std::ffi::c_void;

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::ImportRequest;
use super::satisfy::Received;
use crate::import_options::ImportOptions;
use crate::imported::Imported;
use crate::protocol::device_copy::kept_until_passed;
use crate::protocol::storage::storage;
use crate::protocol::{framework_checks, type_info};
use crate::stream::{DataStream, StreamOf, Streams};

/// Imports an object with the handle of a stream; work on that stream runs after the producer's pending writes. It is
/// the stream that the caller chooses. Without a choice, it is the producer's if its exchange API reports one, or
/// else the device's default stream.
pub(crate) fn on_device(
    object: &Bound<'_, PyAny>,
    choice: Option<StreamOf>,
) -> PyResult<(Imported, *mut c_void)> {
    let streams = choice.map_or_else(Streams::default, Streams::chosen);
    if choice.is_none()
        && let Some(answer) = on_work_stream(object)?
    {
        return Ok(answer);
    }
    let options = ImportOptions::default();
    let request = ImportRequest { object, options: &options, streams };
    let (imported, streams) = (request.required()?, request.streams);
    let device = imported.tensor.device();
    if object.is_instance_of::<PyCapsule>() && !device.device_type().is_host_accessible() {
        return Err(PyBufferError::new_err(format!(
            "the data is on {device}, and a capsule cannot synchronise with a stream; pass \
             the object that makes it"
        )));
    }
    let stream = streams.handle(device)?;
    Ok((kept(imported, &streams)?, stream))
}

/// Keeps data until a stream that its producer does not know has finished its queued work. Producers synchronise with
/// the default stream.
fn kept(imported: Imported, streams: &Streams<'_, '_>) -> PyResult<Imported> {
    let device = imported.tensor.device();
    if streams.is_default() || device.device_type().is_host_accessible() {
        return Ok(imported);
    }
    match streams.on(device)? {
        stream @ (DataStream::Handle(_) | DataStream::PerThread(_)) => {
            let tensor = kept_until_passed(imported.tensor, &stream)?;
            Ok(Imported { tensor, ..imported })
        }
        _ => Ok(imported),
    }
}

/// Imports an object of a type with a table, without synchronising; `None` for other objects.
fn on_work_stream(object: &Bound<'_, PyAny>) -> PyResult<Option<(Imported, *mut c_void)>> {
    let type_info = type_info::of(object)?;
    let Some(table) = type_info.table else { return Ok(None) };
    framework_checks::check_before(object, &type_info.checks)?;
    // Before the table, because other code may give the object other memory meanwhile; `with_values` compares.
    let storage = storage(object, &type_info)?;
    let answer = table
        .import_on_work_stream(object)
        .map_err(|error| framework_checks::explained(object, &type_info.checks, error))?;
    let Some((imported, stream)) = answer else { return Ok(None) };
    let received = Received { imported, storage };
    let valid = received.validate(object, &type_info, &ImportOptions::default())?;
    Ok(Some((valid.unrestricted(), stream)))
}
