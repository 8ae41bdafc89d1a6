//! Exports by `__dlpack__` of the package's class: the memory itself, or a copy if the consumer's options need one.

use dlbridge::{Device, Error, Tensor, TensorRef};
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::producer::{ExportOptions, Keywords};
use dlbridge_pyo3::python::copies;
use dlbridge_pyo3::python::error::to_py_err;
use dlbridge_pyo3::{PyTensor, capsule};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::device::{Streams, copied, expect_none, is_possible, put_in_order};

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
        false => satisfied(options, py, exporter, Streams::named(keywords.stream.as_deref())),
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
    streams: Streams<'_, '_>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let ExportOptions { versioned, copy, to } = options;
    let tensor = exporter.tensor();
    let mut moved = false;
    if copy == Some(true) || to != tensor.device() {
        if copy != Some(false) && is_possible(tensor.device(), to) {
            let waiting = match to == Device::CPU {
                true => expect_none(streams).map(|()| *exporter.stream())?,
                false => streams.on(to)?,
            };
            let copy = copied(py, tensor, exporter.stream(), to, &waiting)?;
            return give(py, copy, versioned);
        }
        moved = must_move(tensor.device(), to)?;
    }
    if !streams.is_default() || !tensor.device().device_type().is_host_accessible() {
        put_in_order(py, exporter, streams)?;
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

/// Returns true if the data must be copied for the requested device.
pub(crate) fn must_move(ours: Device, asked: Device) -> PyResult<bool> {
    if asked == ours {
        return Ok(false);
    }
    if asked == Device::CPU && ours.device_type().is_host_accessible() {
        return Ok(true);
    }
    Err(PyBufferError::new_err(format!(
        "the data is on {ours} and cannot be exported to {asked}; request {ours}, or move it first"
    )))
}
