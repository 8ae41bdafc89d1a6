//! Copies to and from a device by the CUDA driver.
//!
//! Also keeps memory until a stream has passed.

use dlbridge::{ArcTensor, Device, DeviceType, Tensor};
use dlbridge_gpu::{Place, after_stream};
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::stream::{DataStream, has_streams};
use pyo3::prelude::*;

use crate::stream;

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
        stream::refused(&failure, text)
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
            stream::refused(&failure, text)
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
