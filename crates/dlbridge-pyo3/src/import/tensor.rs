//! Imports into the Python class, synchronised with a stream.

use dlbridge::{CopyReason, Device, DeviceType};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::{ImportRequest, satisfy};
use crate::PyTensor;
use crate::cycles;
use crate::gpu;
use crate::import;
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::protocol::device_copy::{copied, kept_until_passed};
use crate::protocol::dlpack::is_on_device;
use crate::record::Common;
use crate::stream::{self, DataStream, Streams};

impl PyTensor {
    /// Imports any Python object that supports a protocol. A `Tensor` is returned unchanged if it meets the options
    /// and they do not select a protocol.
    ///
    /// # Errors
    /// As [`import`](crate::import); `BufferError` if the data cannot meet the options.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::{PyTensor, ImportOptions};
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn keep<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTensor>> {
    ///     PyTensor::import(x, &ImportOptions::default())
    /// }
    /// ```
    pub fn import<'py>(
        object: &Bound<'py, PyAny>,
        options: &ImportOptions,
    ) -> PyResult<Bound<'py, Self>> {
        if let Some(ours) = Self::if_ours(object, options) {
            return Self::satisfied(ours, options);
        }
        let imported = ImportRequest::new(object, options).required()?;
        match imported.tensor.device().device_type().is_host_accessible() {
            true => Self::from(imported).into_object(object.py()),
            false => Self::on_stream(object, imported, &Streams::default()),
        }
    }

    /// The object, if it is a `Tensor` and the options do not select a protocol.
    fn if_ours<'a, 'py>(
        object: &'a Bound<'py, PyAny>,
        options: &ImportOptions,
    ) -> Option<&'a Bound<'py, Self>> {
        Self::of(object).filter(|_| options.protocol.is_none())
    }

    /// The shortcut of a `Tensor`, which was selected, requested and validated when it was made: satisfies the options.
    fn satisfied<'py>(
        ours: &Bound<'py, Self>,
        options: &ImportOptions,
    ) -> PyResult<Bound<'py, Self>> {
        let py = ours.py();
        let (tensor, record) = (&ours.get().tensor, ours.get().record());
        let read_only = ours.get().is_read_only();
        if let Some(copied) = ours.get().copied_by_driver(py, options, &Streams::default())? {
            return Bound::new(py, copied);
        }
        if let Some((copy, reason)) = satisfy::copy_of(options, tensor, read_only, false)? {
            let copy = if options.writable == Some(false) { copy.into_read_only() } else { copy };
            let record = Common { reason: Some(reason), ..record };
            return Bound::new(py, Self::with_record(copy, record, DataStream::Default));
        }
        if options.writable == Some(false) && !tensor.is_read_only() {
            return Bound::new(py, ours.get().with_tensor(tensor.share()));
        }
        Ok(ours.clone())
    }

    /// Imports through `__dlpack__` alone, like `from_dlpack` of the array API standard; `device` is the target
    /// device.
    ///
    /// # Errors
    /// As [`import`](crate::import); `BufferError` if the producer cannot export the data to `device`;
    /// `AttributeError` for an object without `__dlpack__`.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyTensor;
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn on_cpu<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTensor>> {
    ///     PyTensor::from_dlpack(x, Some(dlbridge::Device::CPU), None)
    /// }
    /// ```
    pub fn from_dlpack<'py>(
        object: &Bound<'py, PyAny>,
        device: Option<Device>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, Self>> {
        let options = ImportOptions { copy, device, ..ImportOptions::default() };
        Self::from_dlpack_on(object, &options, Streams::default())
    }

    /// As [`from_dlpack`](Self::from_dlpack), synchronised with a stream.
    pub(crate) fn from_dlpack_on<'py>(
        object: &Bound<'py, PyAny>,
        options: &ImportOptions,
        streams: Streams<'_, 'py>,
    ) -> PyResult<Bound<'py, Self>> {
        Self::on_stream(object, import::from_dlpack(object, options, streams.clone())?, &streams)
    }

    /// As [`import`](Self::import), synchronised with a stream that the caller names.
    pub(crate) fn import_on<'py>(
        object: &Bound<'py, PyAny>,
        options: &ImportOptions,
        streams: Streams<'_, 'py>,
    ) -> PyResult<Bound<'py, Self>> {
        let py = object.py();
        let Some(ours) = Self::if_ours(object, options) else {
            let request = ImportRequest { object, options, streams };
            let imported = request.required()?;
            return Self::on_stream(object, imported, &request.streams);
        };
        if let Some(copied) = ours.get().copied_by_driver(py, options, &streams)? {
            return Bound::new(py, copied);
        }
        let ours = Self::satisfied(ours, options)?;
        let (device, stream) = (ours.get().tensor.device(), ours.get().stream());
        let chosen = streams.on(device)?;
        if matches!((&chosen, stream), (DataStream::Handle(new), DataStream::Handle(old)) if new == old)
        {
            // It is synchronised already, and kept until that stream has passed.
            return Ok(ours);
        }
        stream::order(py, device, stream, &chosen)?;
        let tensor = ours.get().alias()?;
        let tensor = kept_until_passed(tensor, &chosen)?;
        Bound::new(py, Self::with_record(tensor, ours.get().record(), chosen))
    }

    /// The object of an import. The garbage collector visits it only if it may report another one.
    fn into_object(self, py: Python<'_>) -> PyResult<Bound<'_, Self>> {
        let reports = cycles::may_report(&self.tensor);
        let object = Bound::new(py, self)?;
        if !reports {
            // SAFETY: the object is alive, and its class reports to the collector, so it has the collector's header.
            unsafe { ffi::PyObject_GC_UnTrack(object.as_ptr().cast()) };
        }
        Ok(object)
    }

    /// The Python tensor for an import that was synchronised with a stream, which it remembers.
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
                || is_on_device(object));
        let stream = match came_here {
            // The stream belongs to the source device.
            true => DataStream::Default,
            false => match is_here && streams.is_default() {
                true => DataStream::Default,
                false => streams.on(device)?,
            },
        };
        if object.is_instance_of::<PyCapsule>()
            && !is_here
            && !streams.is_default()
            && !matches!(stream, DataStream::Unsynchronized)
        {
            return Err(PyBufferError::new_err(format!(
                "the data is on {device}, and a capsule cannot synchronise with a stream; pass the \
                 object that makes it, or stream=-1 and synchronise yourself"
            )));
        }
        if !streams.is_default() {
            imported.tensor = kept_until_passed(imported.tensor, &stream)?;
        }
        Self::imported_on(imported, stream).into_object(object.py())
    }

    /// The copy on another device, or on its own, that only the driver can make; `None` if none is requested.
    pub(super) fn copied_by_driver(
        &self,
        py: Python<'_>,
        options: &ImportOptions,
        streams: &Streams<'_, '_>,
    ) -> PyResult<Option<Self>> {
        let found = self.tensor.device();
        let to = options.device.unwrap_or(found);
        let is_asked = to != found || options.copy == Some(true);
        if !is_asked || options.copy == Some(false) || !gpu::is_possible(found, to) {
            return Ok(None);
        }
        let stream = match to == Device::CPU {
            true if streams.is_default() => *self.stream(),
            true => streams.on(found)?,
            false => streams.on(to)?,
        };
        let tensor = copied(py, &self.tensor, self.stream(), to, &stream)?;
        let reason = if to == found { CopyReason::Requested } else { CopyReason::Device };
        let imported = satisfy::settle(
            options,
            Imported {
                reason: Some(reason),
                version: self.record().version,
                ..Imported::new(tensor, self.imported_by().unwrap_or(Protocol::ExchangeApi))
            },
        )?;
        let stream = if to == Device::CPU { DataStream::Default } else { stream };
        let Imported { tensor, reason, version, .. } = imported;
        let record = Common { protocol: self.imported_by(), reason, version };
        Ok(Some(Self::with_record(tensor, record, stream)))
    }
}
