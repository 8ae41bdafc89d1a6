//! A substitute for the drivers in an extension that is built without the feature `gpu`.

use std::fmt;

use dlbridge::{ArcTensor, Device, DeviceType, Tensor};

type StreamHandle = usize;

/// A driver; no value of this type exists.
pub(crate) enum Driver {}

/// The reason why all work of a driver fails here.
#[derive(Debug)]
pub(crate) struct Failure;

impl Failure {
    /// Returns true if memory ran out.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        false
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "this extension is built without the drivers of CUDA and ROCm; build it with the feature `gpu` of dlbridge-pyo3",
        )
    }
}

type Result<T> = std::result::Result<T, Failure>;

impl Driver {
    pub(crate) fn of(_: DeviceType) -> Result<&'static Self> {
        Err(Failure)
    }

    pub(crate) fn locate(&self, _: usize) -> Result<(Device, i32)> {
        match *self {}
    }
}

/// The target of a copy.
pub(crate) struct Place {
    #[expect(dead_code, reason = "for the driver")]
    pub(crate) device: Device,
    #[expect(dead_code, reason = "for the driver")]
    pub(crate) stream: StreamHandle,
}

/// # Safety
/// Always safe: this function only fails.
pub(crate) unsafe fn copied(_: &ArcTensor, _: Option<StreamHandle>, _: Place) -> Result<Tensor> {
    Err(Failure)
}

/// # Safety
/// Always safe: this function only fails.
pub(crate) unsafe fn order(_: (Device, StreamHandle), _: (Device, StreamHandle)) -> Result<()> {
    Err(Failure)
}

/// # Safety
/// Always safe: this function only fails.
pub(crate) unsafe fn wait(_: Device, _: StreamHandle) -> Result<()> {
    Err(Failure)
}

/// # Safety
/// Always safe: this function only fails.
pub(crate) unsafe fn after_stream(_: Tensor, _: StreamHandle) -> Result<Tensor> {
    Err(Failure)
}
