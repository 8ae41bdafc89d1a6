//! The import of an object: [`ImportRequest::run`]. Its stages:
//!
//! | stage | file | |
//! | --- | --- | --- |
//! | shortcut | this file | NumPy's and JAX's arrays are read in place; PyTorch's tensors come from their type's C functions |
//! | select | this file | refuses objects in a state that no protocol reports; the NumPy array of a column replaces the column |
//! | request | `protocols.rs` | tries the protocols in the order of the object's framework |
//! | validate, satisfy | `satisfy.rs` | the elements are the object's values, their memory stays, and the options hold |
//!
//! A shortcut makes all checks of an import.

mod buffer;
pub(crate) mod dlpack;
pub(crate) mod options;
mod protocols;
pub(crate) mod satisfy;

use dlbridge::{CopyReason, Device, DeviceType};
use dlbridge_pyo3::import::{Checks, Depth, has, in_place};
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::{Imported, Protocol};
use dlbridge_pyo3::protocol::{TypeInfo, type_info};
use dlbridge_pyo3::python::error::repr_in_message;
use dlbridge_pyo3::stream::DataStream;
use dlbridge_pyo3::{PyTensor, capsule};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use self::dlpack::is_on_device;
use self::satisfy::{satisfy, settle, unless_copied};
use crate::device::{Streams, kept_until_passed};
use crate::frameworks;
use crate::frameworks::explain::explained;
use crate::frameworks::pandas::{self, PANDAS};

/// An import: the object, and what the caller demands.
pub(crate) struct ImportRequest<'a, 'py> {
    pub(crate) object: &'a Bound<'py, PyAny>,
    pub(crate) options: &'a ImportOptions,
    pub(crate) streams: Streams<'a, 'py>,
}

impl ImportRequest<'_, '_> {
    /// Imports the object of another library, and refuses one without a protocol.
    #[inline]
    pub(crate) fn run(&self) -> PyResult<Imported> {
        let Self { object, options, streams } = self;
        let type_info = type_info::of(object)?;
        if options.protocol.is_none()
            && streams.is_default()
            && let Some(imported) = by_shortcut(object, &type_info, options)?
        {
            return settle(options, imported);
        }
        let imported = self.run_stages(&type_info)?;
        imported.ok_or_else(|| protocols::refusal(object, options.protocol))
    }

    fn run_stages(&self, type_info: &TypeInfo) -> PyResult<Option<Imported>> {
        let Self { object, options, streams } = self;
        let _depth = Depth::enter()?;
        if let Ok(capsule) = object.cast::<PyCapsule>()
            && let None | Some(Protocol::Dlpack | Protocol::LegacyDlpack) = options.protocol
        {
            if options.protocol == Some(Protocol::LegacyDlpack) {
                expect_legacy(capsule)?;
            }
            let imported = unless_copied(capsule::take(capsule)?, options)?;
            return satisfy(object, imported, options, *streams).map(Some);
        }
        let checks = match (Checks::before(object, type_info), options.protocol) {
            (Ok(checks), _) => checks,
            (Err(_), Some(protocol)) if !has(object, protocol)? => return Ok(None),
            (Err(refusal), _) => return Err(refusal),
        };
        if options.protocol.is_none()
            && let Some((array, reason)) = array_of(object, type_info, options)?
        {
            // The array may be a copy that was made for this import.
            let copy = if reason.is_some() { None } else { options.copy };
            let options = &ImportOptions { copy, ..**options };
            let imported = ImportRequest { object: &array, options, streams: *streams }.run()?;
            return Ok(Some(Imported { reason: reason.or(imported.reason), ..imported }));
        }
        let Some(imported) = self.request(type_info)? else { return Ok(None) };
        let imported = unless_copied(checks.after(imported)?, options)?;
        satisfy(object, imported, options, *streams).map(Some)
    }
}

/// The NumPy array that holds the values of a column, and why it is a copy if it is one; `None` for all other objects.
pub(crate) fn array_of<'py>(
    object: &Bound<'py, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Option<(Bound<'py, PyAny>, Option<CopyReason>)>> {
    if !frameworks::is_of(&type_info.checks, &PANDAS) {
        return Ok(None);
    }
    pandas::array_of(object, options).map_err(|error| explained(object, &type_info.checks, error))
}

/// Imports an object whose type has a shortcut, for a caller on the default stream; `None` if a protocol is needed.
#[inline(always)]
fn by_shortcut(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    let on_cpu = options.device.is_none_or(|device| device == Device::CPU);
    let (is_array, table) = (type_info.head.is_some(), type_info.table);
    if let Some(table) = table.filter(|_| !is_array) {
        if !protocols::may_use_table(options) {
            return Ok(None);
        }
        let _depth = Depth::enter()?;
        let checks = Checks::before(object, type_info)?;
        // SAFETY: `ImportRequest::run` found these facts by the object's type.
        let imported =
            unsafe { protocols::import_by_table(table, object, options, Streams::default()) }
                .map_err(|error| explained(object, &type_info.checks, error))?;
        let Some(imported) = imported else { return Ok(None) };
        return unless_copied(checks.after(imported)?, options).map(Some);
    }
    // The library of the object makes a requested copy, except NumPy.
    match on_cpu && (is_array || options.copy != Some(true)) {
        true => in_place(object, type_info),
        false => Ok(None),
    }
}

/// The tensor of an import that was synchronised with a stream, which it remembers.
pub(crate) fn on_stream(
    object: &Bound<'_, PyAny>,
    mut imported: Imported,
    streams: Streams<'_, '_>,
) -> PyResult<PyTensor> {
    if streams.is_default() {
        return Ok(PyTensor::from(imported));
    }
    let device = imported.tensor.device();
    let is_here = device.device_type().is_host_accessible();
    let came_here = is_here
        && (device.device_type() == DeviceType::CUDA_HOST
            || imported.reason == Some(CopyReason::Device)
            || is_on_device(object)?);
    let stream = match came_here {
        // The stream belongs to the source device.
        true => DataStream::Default,
        false => streams.on(device)?,
    };
    let is_ordered = !is_here && !matches!(stream, DataStream::Unsynchronized);
    if object.is_instance_of::<PyCapsule>() && is_ordered {
        return Err(PyBufferError::new_err(format!(
            "the data is on {device}, and a capsule cannot synchronise with a stream; pass the \
             object that makes it, or stream=-1 and synchronise yourself"
        )));
    }
    imported.tensor = kept_until_passed(imported.tensor, &stream)?;
    Ok(PyTensor::imported_on(imported, stream))
}

/// Refuses a versioned capsule where a legacy one is requested, and leaves it unconsumed.
fn expect_legacy(answer: &Bound<'_, PyCapsule>) -> PyResult<()> {
    if !answer.is_valid_checked(Some(capsule::VERSIONED)) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{} is versioned, and protocol='dlpack-legacy' takes legacy ones; use protocol='dlpack', or \
         leave protocol out",
        repr_in_message(answer)
    )))
}
