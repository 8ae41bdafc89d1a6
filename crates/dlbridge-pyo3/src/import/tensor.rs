//! Imports that keep the tensor, synchronised with a stream.

use dlbridge::{CopyReason, Device, DeviceType};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::PyTensor;
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::protocol::device_copy::kept_until_passed;
use crate::protocol::dlpack::is_on_device;
use crate::protocol::type_info;
use crate::stream::{DataStream, Streams};

impl PyTensor {
    /// Imports any Python object that supports a protocol.
    ///
    /// # Errors
    /// As [`import`](crate::import); `BufferError` if the data cannot meet the options.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::{PyTensor, ImportOptions};
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn keep(x: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
    ///     PyTensor::import(x, &ImportOptions::default())
    /// }
    /// ```
    #[inline]
    pub fn import(object: &Bound<'_, PyAny>, options: &ImportOptions) -> PyResult<Self> {
        super::required(object, &*type_info::of(object)?, options).map(Self::from)
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
    /// fn on_cpu(x: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
    ///     PyTensor::from_dlpack(x, Some(dlbridge::Device::CPU), None)
    /// }
    /// ```
    pub fn from_dlpack(
        object: &Bound<'_, PyAny>,
        device: Option<Device>,
        copy: Option<bool>,
    ) -> PyResult<Self> {
        super::expect_dlpack(object)?;
        let protocol = Some(Protocol::Dlpack);
        Self::import(object, &ImportOptions { protocol, copy, device, ..ImportOptions::default() })
    }

    /// The tensor of an import that was synchronised with a stream, which it remembers.
    #[doc(hidden)]
    pub fn on_stream(
        object: &Bound<'_, PyAny>,
        mut imported: Imported,
        streams: &Streams<'_, '_>,
    ) -> PyResult<Self> {
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
        Ok(Self::imported_on(imported, stream))
    }
}
