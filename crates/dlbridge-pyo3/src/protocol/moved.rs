//! Tensors that are wanted on another device than they are on, or copied where the CPU cannot: the copy is made by the
//! driver of CUDA.

use std::sync::Arc;

use dlbridge::{Device, DeviceType, Tensor};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::stream::{self, DataStream, Streams, has_streams};
use super::{Imported, is_on_device, normalized};
use crate::borrow::Guard;
use crate::gpu::{self, Driver, Place};
use crate::receipt::CopyReason;
use crate::wanted::Wanted;

/// What is asked of a producer instead, which does not give its data where it is wanted: the data where it is.
/// `None` if it would be of no use there.
pub(super) fn wherever_it_is(
    object: &Bound<'_, PyAny>,
    wanted: &Wanted,
    refusal: &PyErr,
) -> Option<Wanted> {
    // The CPU's memory is copied to and on it by others.
    let is_on_device = || is_on_device(object);
    let by_driver = match wanted.device {
        Some(Device::CPU) => is_on_device(),
        Some(device) => has_streams(device),
        None => wanted.copy == Some(true) && is_on_device(),
    };
    let is_final = wanted.copy == Some(false)
        || object.is_instance_of::<PyCapsule>()
        || !refusal.is_instance_of::<PyBufferError>(object.py());
    let has_driver = || Driver::of(DeviceType::CUDA).is_ok();
    (by_driver && !is_final && has_driver()).then_some(Wanted {
        device: None,
        copy: None,
        ..*wanted
    })
}

/// Imports data from where it is: the caller's stream is of the device that it goes to, if that has streams.
pub(super) fn from_source<'py>(
    wanted: &Wanted,
    streams: &Streams<'_, 'py>,
    import: impl FnOnce(&Streams<'_, 'py>) -> PyResult<Option<Imported>>,
) -> PyResult<Option<Imported>> {
    match wanted.device.is_some_and(has_streams) {
        true => import(&Streams::default()),
        false => import(streams),
    }
}

/// Whether the driver of CUDA can make what is wanted of a tensor.
pub(super) fn is_within_reach(tensor: &Tensor, wanted: &Wanted) -> bool {
    let found = tensor.device();
    gpu::is_possible(found, wanted.device.unwrap_or(found))
}

/// Copies what was imported to the device where it is wanted, or on its own, if the driver of CUDA can; what it cannot is
/// left as it is.
pub(super) fn moved<'py>(
    object: &Bound<'py, PyAny>,
    imported: Imported,
    wanted: &Wanted,
    streams: &Streams<'_, 'py>,
) -> PyResult<Imported> {
    let found = imported.tensor.device();
    let to = wanted.device.unwrap_or(found);
    let copied_here = wanted.copy == Some(true) && imported.reason.is_none();
    let reason = match to == found {
        true if copied_here => CopyReason::Requested,
        true => return Ok(imported),
        false => CopyReason::Device,
    };
    if !gpu::is_possible(found, to) || wanted.copy == Some(false) {
        return Ok(imported);
    }
    // The producer has put its data in order with this one already.
    let on = if to == Device::CPU { found } else { to };
    let passed = match has_streams(found) {
        true => streams.on_source(found, wanted)?,
        false => DataStream::Unsynchronized,
    };
    let source = Arc::new(imported.tensor);
    let tensor = copied(object.py(), &source, &passed, to, &streams.on(on)?)?;
    let (tensor, _) = normalized(tensor, None)?;
    Ok(Imported { tensor, reason: Some(reason), ..imported })
}

/// A copy of a tensor on another device or its own, `passed` being the stream that it is in the order of.
pub(crate) fn copied(
    py: Python<'_>,
    tensor: &Arc<Tensor>,
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
    // Who sees to the order himself has the copy made on the default stream.
    let to = Place { device, stream: stream.handle().unwrap_or_default() };
    // A count of one stays one while the garbage collector looks, which may be while this thread is detached.
    let kept = Arc::clone(tensor);
    // Others run meanwhile: what is under way may wait for Python code.
    // SAFETY: who names a stream promises that it lives.
    let copied = py.detach(|| unsafe { gpu::copied(&kept, passed, to) });
    py.check_signals()?;
    copied.map_err(|failure| {
        let text = format!("the data is on {from} and cannot be copied to {device}: {failure}");
        stream::refused(&failure, text)
    })
}

/// The same tensor, whose memory is given back when the stream that a caller named has passed what he put on it.
pub(crate) fn kept_until_passed(tensor: Tensor, stream: &DataStream) -> PyResult<Tensor> {
    match stream.handle().filter(|_| has_streams(tensor.device()) && !tensor.is_empty()) {
        None => Ok(tensor),
        // SAFETY: who names a stream promises that it lives.
        Some(handle) => unsafe { gpu::after_stream(tensor, handle) }.map_err(|failure| {
            let text = format!("the stream cannot be used: {failure}");
            stream::refused(&failure, text)
        }),
    }
}
