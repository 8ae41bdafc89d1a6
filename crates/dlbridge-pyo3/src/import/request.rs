//! Request: the tensor as its producer exports it.

use dlbridge::{Device, DeviceType};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::in_place::{array_in_place, may_be_in_place};
use super::instead::instead_of_dlpack;
use super::select::{Producer, Protocols, Selected};
use super::{no_protocol, protocols};
use crate::gpu::{self, Driver};
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::protocol::dlpack::is_on_device;
use crate::protocol::storage::storage;
use crate::protocol::{Lacking, framework_checks};
use crate::stream::Streams;
use crate::stream::has_streams;
use crate::{capsule, copies};

/// A tensor as its producer exported it.
pub(super) struct Received<'a, 'py> {
    pub(super) imported: Imported,
    /// `None` for a capsule.
    pub(super) producer: Option<&'a Producer<'py>>,
    /// The storage of the producer's memory, if it can be replaced.
    pub(super) storage: Option<Bound<'py, PyAny>>,
}

impl<'py> Selected<'_, 'py> {
    /// Requests the tensor; `None` from an object without any of the protocols. If the producer refuses to export it
    /// to the requested device and a driver can copy it there, requests it on its own device.
    pub(super) fn request(
        &self,
        options: &ImportOptions,
        streams: &Streams<'_, 'py>,
    ) -> PyResult<Option<Received<'_, 'py>>> {
        let producer = match self {
            Self::Capsule(capsule) => {
                let imported = capsule::take(capsule)?;
                return Ok(Some(Received { imported, producer: None, storage: None }));
            }
            Self::Producer(producer) => producer,
        };
        // Before the request, because other code may give the producer other memory meanwhile; `validate` compares.
        let storage = storage(&producer.object, &producer.type_info)?;
        let received = |imported| Received { imported, producer: Some(producer), storage };
        let refusal = match producer.request(options, streams) {
            Ok(imported) => return Ok(imported.map(received)),
            Err(refusal) => refusal,
        };
        if !producer.may_export_elsewhere(options, &refusal) {
            return Err(refusal);
        }
        let options_there = ImportOptions { device: None, copy: None, ..*options };
        // The caller's stream belongs to the target device, if that has streams.
        let default = Streams::default();
        let streams = if options.device.is_some_and(has_streams) { &default } else { streams };
        match producer.request(&options_there, streams) {
            Ok(Some(imported)) => {
                let found = imported.tensor.device();
                let is_within_reach = gpu::is_possible(found, options.device.unwrap_or(found));
                if is_within_reach { Ok(Some(received(imported))) } else { Err(refusal) }
            }
            Err(error) if copies::must_be_raised(producer.object.py(), &error) => Err(error),
            _ => Err(refusal),
        }
    }
}

impl<'py> Producer<'py> {
    fn request(
        &self,
        options: &ImportOptions,
        streams: &Streams<'_, 'py>,
    ) -> PyResult<Option<Imported>> {
        if self.column.is_some()
            && let Some(head) = self.type_info.head
            && may_be_in_place(options)
            && let Some(imported) = array_in_place(&self.object, head, options)?
        {
            return Ok(Some(imported));
        }
        let lacking = self.type_info.lacking.now(self.object.py())?;
        let imported = self.request_without(lacking, options, streams);
        // One object may have an attribute that other objects of its type lack.
        match imported {
            Err(error) if copies::must_be_raised(self.object.py(), &error) => Err(error),
            Err(_) | Ok(None)
                if self.type_info.lacking.may_differ() && lacking.is_wrong_for(&self.object)? =>
            {
                self.request_without(Lacking::UNKNOWN, options, streams)
            }
            imported => imported,
        }
    }

    /// Requests the tensor without looking up the attributes that objects of the type lack.
    fn request_without(
        &self,
        lacking: Lacking,
        options: &ImportOptions,
        streams: &Streams<'_, 'py>,
    ) -> PyResult<Option<Imported>> {
        let (object, type_info) = (&self.object, &*self.type_info);
        let explained = |error| framework_checks::explained(object, &type_info.checks, error);
        let order = match self.protocols {
            Protocols::One(protocol) => {
                let imported =
                    protocols::import(protocol, object, type_info, lacking, options, streams);
                let imported = imported.map_err(explained)?;
                return imported.ok_or_else(|| no_protocol::refusal(object, &[protocol])).map(Some);
            }
            Protocols::First(order) => order,
        };
        // A class has the attributes of its objects.
        let lacks_all = lacking == Lacking::ALL || object.is_instance_of::<PyType>();
        let only_buffer = lacks_all && type_info.table.is_none();
        let order = if only_buffer { &[Protocol::Buffer] } else { order };
        for &protocol in order {
            return match protocols::import(protocol, object, type_info, lacking, options, streams) {
                Ok(None) => continue,
                Ok(imported) => Ok(imported),
                Err(interrupt) if copies::is_interrupt(object.py(), &interrupt) => Err(interrupt),
                Err(refusal) if protocol == Protocol::Dlpack => {
                    instead_of_dlpack(object, type_info, lacking, options, refusal)
                        .map_err(explained)
                        .map(Some)
                }
                Err(error) => Err(explained(error)),
            };
        }
        Ok(None)
    }

    /// Returns true if a producer that refused may still export its data on its own device, from which the CUDA
    /// driver may copy it.
    fn may_export_elsewhere(&self, options: &ImportOptions, refusal: &PyErr) -> bool {
        let object = &self.object;
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
