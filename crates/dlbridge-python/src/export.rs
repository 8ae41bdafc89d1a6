//! Exports by `__dlpack__` of the package's class: the memory itself, or a copy if the consumer's options need one.

use dlbridge::{Device, Error, Tensor, TensorRef};
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::error::to_py_err;
use dlbridge_pyo3::protocol::dlpack::must_move;
use dlbridge_pyo3::protocol::dlpack_export::{ExportOptions, Keywords};
use dlbridge_pyo3::stream::{DataStream, has_streams};
use dlbridge_pyo3::{PyTensor, capsule, copies};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::device_copy::{copied, is_possible};
use crate::stream;

/// Exports a tensor for a call of `__dlpack__`.
#[inline]
pub(crate) fn export<'py>(
    py: Python<'py>,
    exporter: &PyTensor,
    keywords: &Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let options = ExportOptions::read(keywords, exporter)?;
    let is_here = keywords.stream.is_none() && options.to.device_type().is_host_accessible();
    match is_here && options.is_sharable(exporter) {
        true => options.shared(py, exporter),
        false => satisfied(options, py, exporter, keywords.stream.as_deref()),
    }
}

/// Copies if the memory cannot be shared, otherwise makes the consumer's stream wait.
///
/// With `copy=None` the data is copied only if the consumer requests the CPU, and the data is in host-accessible memory of
/// another device; if it requests another device, and the CUDA driver can copy between the two; and if it supports only
/// legacy capsules, which cannot express the data.
#[cold]
#[inline(never)]
fn satisfied<'py>(
    options: ExportOptions,
    py: Python<'py>,
    exporter: &PyTensor,
    stream: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let ExportOptions { versioned, copy, to } = options;
    let tensor = exporter.tensor();
    let mut moved = false;
    if copy == Some(true) || to != tensor.device() {
        if copy != Some(false) && is_possible(tensor.device(), to) {
            return give(py, copied_to(py, exporter, to, stream)?, versioned);
        }
        moved = must_move(tensor.device(), to)?;
    }
    if stream.is_some() || !tensor.device().device_type().is_host_accessible() {
        put_in_order(py, exporter, stream)?;
    }
    let inexpressible = options.is_inexpressible(exporter);
    if copy != Some(true) && !moved && !inexpressible {
        return options.shared(py, exporter);
    }
    if copy == Some(false) {
        return Err(match (inexpressible, tensor.is_read_only()) {
            (true, true) => to_py_err(Error::LegacyReadOnly),
            (true, false) => to_py_err(Error::LegacySubbytePadded),
            _ => PyBufferError::new_err(format!(
                "moving the data from {} to the CPU needs a copy; leave out copy=False",
                tensor.device()
            )),
        });
    }
    let _reading = Guard::for_copy(tensor)?;
    give(py, copies::copied(&TensorRef::from(&**tensor), 1)?, versioned)
}

/// A capsule that owns a copy.
fn give(py: Python<'_>, tensor: Tensor, versioned: bool) -> PyResult<Bound<'_, PyCapsule>> {
    if versioned {
        // SAFETY: the managed tensor is made from a tensor of ours, and only the capsule gets it.
        return unsafe { capsule::versioned(py, tensor.into_raw()) };
    }
    let managed = tensor.into_raw_legacy().map_err(|(_, error)| to_py_err(error))?;
    // SAFETY: the managed tensor is made from a tensor of ours, and only the capsule gets it.
    unsafe { capsule::legacy(py, managed) }
}

/// Makes the consumer's stream wait for the stream of the data.
#[cold]
fn put_in_order(
    py: Python<'_>,
    exporter: &PyTensor,
    stream: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let device = exporter.tensor().device();
    match stream {
        // By the standard, `None` is right for devices without streams.
        None if !has_streams(device) => Ok(()),
        None => stream::order(py, device, exporter.stream(), &DataStream::Default),
        Some(stream) => {
            let consumers = stream::expect(stream, device)?;
            stream::order(py, device, exporter.stream(), &consumers)
        }
    }
}

/// A copy on a device, or on the CPU of data on a device.
#[cold]
fn copied_to(
    py: Python<'_>,
    exporter: &PyTensor,
    to: Device,
    stream: Option<&Bound<'_, PyAny>>,
) -> PyResult<Tensor> {
    let consumers = match (to == Device::CPU, stream) {
        (true, stream) => {
            stream::expect_none(stream)?;
            *exporter.stream()
        }
        (false, None) => DataStream::Default,
        (false, Some(stream)) => stream::expect(stream, to)?,
    };
    copied(py, exporter.tensor(), exporter.stream(), to, &consumers)
}
