//! A tensor in the order of a stream, and copies on devices.

use std::sync::Arc;

use dlbridge::{Device, DeviceType};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::PyTensor;
use crate::gpu;
use crate::protocol::{self, DataStream, Imported, Protocol, Streams};
use crate::receipt::CopyReason;
use crate::wanted::Wanted;

impl PyTensor {
    /// As [`from_dlpack`](Self::from_dlpack), in order with a stream.
    pub(crate) fn from_dlpack_on<'py>(
        object: &Bound<'py, PyAny>,
        wanted: &Wanted,
        streams: &Streams<'_, 'py>,
    ) -> PyResult<Bound<'py, Self>> {
        Self::on_stream(object, protocol::by_dlpack(object, wanted, streams)?, streams)
    }

    /// As [`import`](Self::import), in order with a stream that the caller names.
    pub(crate) fn import_on<'py>(
        object: &Bound<'py, PyAny>,
        wanted: &Wanted,
        streams: &Streams<'_, 'py>,
    ) -> PyResult<Bound<'py, Self>> {
        let py = object.py();
        let ours = object.cast::<Self>().ok().filter(|_| wanted.protocol.is_none());
        let Some(ours) = ours else {
            return Self::on_stream(
                object,
                protocol::by_ladder_on(object, wanted, streams)?,
                streams,
            );
        };
        if let Some(copied) = ours.get().copied_by_driver(py, wanted, streams)? {
            return Bound::new(py, copied);
        }
        let ours = Self::import(object, wanted)?;
        let (device, stream) = (ours.get().tensor.device(), ours.get().stream());
        let chosen = streams.on(device)?;
        if matches!((&chosen, stream), (DataStream::Handle(new), DataStream::Handle(old)) if new == old)
        {
            // It is in that order, and kept until that has passed.
            return Ok(ours);
        }
        protocol::stream::order(py, device, stream, &chosen)?;
        let tensor = ours.get().alias()?;
        let tensor = protocol::kept_until_passed(tensor, &chosen)?;
        let changed = ours.get().with_tensor(py, Arc::new(tensor));
        Bound::new(py, Self { stream: remembered(chosen), ..changed })
    }

    /// What was imported in order with a stream, which it remembers.
    pub(super) fn on_stream<'py>(
        object: &Bound<'py, PyAny>,
        mut imported: Imported,
        streams: &Streams<'_, 'py>,
    ) -> PyResult<Bound<'py, Self>> {
        let device = imported.tensor.device();
        let is_here = device.device_type().is_host_accessible();
        let came_here = is_here
            && !streams.is_default()
            && (device.device_type() == DeviceType::CUDA_HOST
                || imported.reason == Some(CopyReason::Device)
                || protocol::is_on_device(object));
        let stream = match came_here {
            // The stream was for where it came from.
            true => DataStream::Default,
            false => protocol::stream::of_imported(object, device, streams)?,
        };
        if object.is_instance_of::<PyCapsule>()
            && !is_here
            && !streams.is_default()
            && !matches!(stream, DataStream::Unsynchronized)
        {
            return Err(PyBufferError::new_err(format!(
                "the data is on {device}, and a capsule cannot be asked to synchronise with a stream; pass the \
                 object that makes it, or stream=-1 and synchronise yourself"
            )));
        }
        if !streams.is_default() {
            imported.tensor = protocol::kept_until_passed(imported.tensor, &stream)?;
        }
        Bound::new(object.py(), Self { stream: remembered(stream), ..Self::from(imported) })
    }

    /// The copy on another device, or on its own, that only the driver can make; `None` where none is wanted.
    pub(super) fn copied_by_driver(
        &self,
        py: Python<'_>,
        wanted: &Wanted,
        streams: &Streams<'_, '_>,
    ) -> PyResult<Option<Self>> {
        let found = self.tensor.device();
        let to = wanted.device.unwrap_or(found);
        let is_asked = to != found || wanted.copy == Some(true);
        if !is_asked || wanted.copy == Some(false) || !gpu::is_possible(found, to) {
            return Ok(None);
        }
        let stream = match to == Device::CPU {
            true if streams.is_default() => self.stream().clone_ref(py),
            true => streams.on(found)?,
            false => streams.on(to)?,
        };
        let tensor = protocol::copied(py, &self.tensor, self.stream(), to, &stream)?;
        let reason = if to == found { CopyReason::Requested } else { CopyReason::Device };
        let imported = wanted.settle(Imported {
            reason: Some(reason),
            version: self.version,
            ..Imported::new(tensor, self.protocol.unwrap_or(Protocol::ExchangeApi))
        })?;
        let stream = if to == Device::CPU { DataStream::Default } else { stream };
        Ok(Some(Self {
            protocol: self.protocol,
            stream: remembered(stream),
            ..Self::from(imported)
        }))
    }

    /// The stream that the data is in the order of.
    pub(crate) fn stream(&self) -> &DataStream {
        static DEFAULT: DataStream = DataStream::Default;
        self.stream.as_deref().unwrap_or(&DEFAULT)
    }

    /// Makes the default stream of the device wait, for a consumer that knows of no other.
    pub(crate) fn in_default_order(&self, py: Python<'_>) -> PyResult<()> {
        let device = self.tensor.device();
        match protocol::stream::has_streams(device) {
            true => protocol::stream::order(py, device, self.stream(), &DataStream::Default),
            false => Ok(()),
        }
    }
}

/// What a tensor remembers of its stream: nothing where that is the default one.
pub(super) fn remembered(stream: DataStream) -> Option<Box<DataStream>> {
    match stream {
        DataStream::Default => None,
        other => Some(Box::new(other)),
    }
}
