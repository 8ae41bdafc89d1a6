//! Copies to a device and from it, which the driver of CUDA makes, and memory that is kept until a stream has passed.

use std::sync::Arc;

use dlbridge::{Device, Tensor};
use pyo3::prelude::*;

use crate::borrow::Guard;
use crate::gpu::{self, Place};
use crate::stream::{self, DataStream, has_streams};

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
