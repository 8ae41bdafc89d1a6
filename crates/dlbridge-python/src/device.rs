//! Data on devices. Streams: one waits for the pending writes on another. Copies by the CUDA driver.
//!
//! Source: the keyword `stream` of `__dlpack__` in the array API standard 2024.12.

use dlbridge::{ArcTensor, Device, DeviceType, Tensor};
use dlbridge_gpu::{Failure, Place, after_stream};
use dlbridge_pyo3::PyTensor;
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::import_options::{ImportOptions, wrong_type};
use dlbridge_pyo3::python::error::repr_in_message;
use dlbridge_pyo3::stream::{DataStream, Kind, has_streams, kind};
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyValueError};
use pyo3::prelude::*;

use crate::import::options::integer;

/// The stream that an import synchronises with: the argument of the call, or without one the default stream of each device.
#[derive(Clone, Copy, Default)]
pub(crate) struct Streams<'a, 'py>(Option<&'a Bound<'py, PyAny>>);

impl<'a, 'py> Streams<'a, 'py> {
    /// The stream that is the argument of a call.
    pub(crate) const fn named(stream: Option<&'a Bound<'py, PyAny>>) -> Self {
        Self(stream)
    }

    /// Returns true if the caller did not choose a stream.
    pub(crate) const fn is_default(&self) -> bool {
        self.0.is_none()
    }

    /// The stream for data on a device.
    pub(crate) fn on(&self, device: Device) -> PyResult<DataStream> {
        self.0.map_or(Ok(DataStream::Default), |stream| expect(stream, device))
    }

    /// The stream for data on its source device. If the data goes to another device with streams, the caller's stream belongs to
    /// that device, so this is the default stream.
    pub(crate) fn on_source(
        &self,
        device: Device,
        options: &ImportOptions,
    ) -> PyResult<DataStream> {
        match options.device.is_some_and(|to| to != device && has_streams(to)) {
            true => Ok(DataStream::Default),
            false => self.on(device),
        }
    }

    /// The argument `stream` for a producer; `None` on devices without streams, or if the device is unknown. Without it a
    /// producer must use the default stream, by the standard, but not every producer does.
    pub(crate) fn keyword(
        &self,
        py: Python<'py>,
        device: Option<Device>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(device) = device.filter(|device| !device.device_type().is_host_accessible())
        else {
            return Ok(None);
        };
        let object = self.on(device)?.to_object(py, device)?;
        Ok((!object.is_none()).then_some(object))
    }

    /// Refuses a stream that was not passed to the producer, because it did not report the device of its data in
    /// advance.
    pub(crate) fn check_asked(&self, claimed: Option<Device>, found: Device) -> PyResult<()> {
        let asked = claimed.is_some() || found.device_type().is_host_accessible();
        let Some(stream) = self.0.filter(|_| !asked) else { return Ok(()) };
        if matches!(expect(stream, found)?, DataStream::Default | DataStream::Unsynchronized) {
            return Ok(());
        }
        Err(PyBufferError::new_err(format!(
            "the data is on {found}, and its producer, which lacks __dlpack_device__, was not asked to \
             synchronise with the stream {}; use the default stream",
            repr_in_message(stream)
        )))
    }
}

/// The stream that the argument `stream` names, for data on a device.
fn expect(stream: &Bound<'_, PyAny>, device: Device) -> PyResult<DataStream> {
    const EXPECTED: &str = "None or an integer";
    let number = match integer(stream)? {
        Some(number) => number.extract::<i64>(),
        None => return Err(wrong_type("stream", EXPECTED, stream)),
    };
    let refused = |why: &str| {
        Err(PyValueError::new_err(format!(
            "stream is {}, {why}; the data is on {device}",
            repr_in_message(stream)
        )))
    };
    match (kind(device), number) {
        (None, Ok(-1)) => Ok(DataStream::Default),
        (_, Ok(-1)) => Ok(DataStream::Unsynchronized),
        (None, _) => Err(PyValueError::new_err(format!(
            "stream must be None for data on {device}, which has no numbered streams; got {}",
            repr_in_message(stream)
        ))),
        (Some(_), Err(_)) | (Some(_), Ok(i64::MIN..=-2)) => {
            refused("which is not the number of a stream")
        }
        (Some(Kind::Cuda), Ok(0)) => refused(
            "which is ambiguous on CUDA: 1 is the legacy default stream, 2 that of each thread",
        ),
        (Some(Kind::Cuda), Ok(1)) | (Some(Kind::Rocm), Ok(0)) => Ok(DataStream::Default),
        (Some(Kind::Rocm), Ok(1 | 2)) => {
            refused("which ROCm does not have: 0 is its default stream")
        }
        (Some(Kind::Cuda), Ok(2)) => Ok(DataStream::per_thread()),
        (Some(_), Ok(handle)) => Ok(DataStream::Handle(handle as usize)),
    }
}

/// Makes the consumer's stream wait for a tensor. By the standard, no stream is right for devices without streams.
pub(crate) fn put_in_order(
    py: Python<'_>,
    tensor: &PyTensor,
    streams: Streams<'_, '_>,
) -> PyResult<()> {
    let device = tensor.tensor().device();
    match streams.is_default() && !has_streams(device) {
        true => Ok(()),
        false => order(py, device, tensor.stream(), &streams.on(device)?),
    }
}

/// Makes a stream wait for the pending work on another stream of the same device.
pub(crate) fn order(
    py: Python<'_>,
    device: Device,
    passed: &DataStream,
    waiting: &DataStream,
) -> PyResult<()> {
    match (passed, waiting) {
        (DataStream::Unsynchronized, _) | (_, DataStream::Unsynchronized) => Ok(()),
        _ if passed.handle() == waiting.handle() => Ok(()),
        _ => {
            let of = |stream: &DataStream| (device, stream.handle().unwrap_or_default());
            let (from, to) = (of(passed), of(waiting));
            // SAFETY: both streams live: the handles are those that Python code named, which dlbridge trusts
            // (docs/safety.md), or those that the data is synchronised with.
            py.detach(|| unsafe { dlbridge_gpu::order(from, to) }).map_err(|failure| {
                let number = |stream: &DataStream| {
                    stream.to_object(py, device).map_or(String::new(), |number| repr_in_message(&number))
                };
                let text = format!(
                    "the data on {device} is synchronised with stream {} and cannot be synchronised with stream {}: \
                     {failure}; pass stream=-1 and synchronise yourself",
                    number(passed),
                    number(waiting)
                );
                refused(&failure, text)
            })
        }
    }
}

/// Waits for the pending work on a CUDA stream, before the CPU reads.
pub(crate) fn wait(py: Python<'_>, device: Device, stream: &DataStream) -> PyResult<()> {
    let Some(handle) = stream.handle() else { return Ok(()) };
    // Detached, because the pending work may wait for Python code on other threads.
    // SAFETY: the stream lives: a default one, one that Python code named (docs/safety.md).
    py.detach(|| unsafe { dlbridge_gpu::wait(device, handle) }).map_err(|failure| {
        let text = format!("dlbridge cannot wait for the pending work on {device}: {failure}");
        refused(&failure, text)
    })
}

/// The exception for a call that the driver refused.
pub(crate) fn refused(failure: &Failure, text: String) -> PyErr {
    match failure.is_out_of_memory() {
        true => PyMemoryError::new_err(text),
        false => PyBufferError::new_err(text),
    }
}

/// Refuses a stream for data that goes to the CPU, which does not have streams.
pub(crate) fn expect_none(streams: Streams<'_, '_>) -> PyResult<()> {
    match streams.0 {
        None => Ok(()),
        Some(stream) => Err(PyValueError::new_err(format!(
            "stream must be None for a tensor on the CPU, not {}: its elements are complete on return",
            repr_in_message(stream)
        ))),
    }
}

/// A copy of a tensor on another device or its own; `passed` is the stream that the tensor is synchronised with.
pub(crate) fn copied(
    py: Python<'_>,
    tensor: &ArcTensor,
    passed: &DataStream,
    device: Device,
    stream: &DataStream,
) -> PyResult<Tensor> {
    let _reading = match tensor.device().device_type().is_host_accessible() {
        true => Some(Guard::reading(tensor, "tensor that is copied")?),
        false => None,
    };
    let from = tensor.device();
    let passed = if has_streams(from) { passed.handle() } else { None };
    // A caller without a stream synchronises itself; the copy runs on the default stream.
    let to = Place { device, stream: stream.handle().unwrap_or_default() };
    // The second handle keeps the garbage collector from seeing a sole handle, even while this thread is detached.
    let kept = tensor.clone();
    // Other threads run meanwhile: pending work may wait for Python code.
    // SAFETY: the streams belong to their devices, and live until the copy is dropped: Stream numbers in
    // `docs/safety.md`. Without a stream it is the default one.
    let copied = py.detach(|| unsafe { dlbridge_gpu::copied(&kept, passed, to) });
    py.check_signals()?;
    copied.map_err(|failure| {
        let text = format!("the data is on {from} and cannot be copied to {device}: {failure}");
        refused(&failure, text)
    })
}

/// The same tensor, whose memory is released after the work that the caller has queued on its stream.
pub(crate) fn kept_until_passed(tensor: Tensor, stream: &DataStream) -> PyResult<Tensor> {
    match stream.handle().filter(|_| has_streams(tensor.device()) && !tensor.is_empty()) {
        None => Ok(tensor),
        // SAFETY: the stream belongs to the tensor's device, and lives until the tensor is dropped: Stream numbers in
        // `docs/safety.md`.
        Some(handle) => unsafe { after_stream(tensor, handle) }.map_err(|failure| {
            let text = format!("the stream cannot be used: {failure}");
            refused(&failure, text)
        }),
    }
}

/// Returns true if the CUDA driver can copy from one device to another.
pub(crate) fn is_possible(from: Device, to: Device) -> bool {
    let is_cuda = |device: Device| {
        matches!(device.device_type(), DeviceType::CUDA | DeviceType::CUDA_MANAGED)
    };
    match to.device_type() {
        DeviceType::CUDA => is_cuda(from) || from.device_type().is_host_accessible(),
        _ => to == Device::CPU && is_cuda(from),
    }
}
