//! A substitute for the drivers in an extension that is built without the feature `gpu`.

use std::fmt;

use dlbridge::{ArcTensor, Device, DeviceType, Tensor};

type StreamHandle = usize;

/// A driver; no value of this type exists.
pub enum Driver {}

/// The reason why all work of a driver fails here.
#[derive(Debug)]
pub struct Failure;

impl Failure {
    /// Returns true if memory ran out.
    pub fn is_out_of_memory(&self) -> bool {
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
    pub fn of(_: DeviceType) -> Result<&'static Self> {
        Err(Failure)
    }

    pub fn locate(&self, _: usize) -> Result<(Device, i32)> {
        match *self {}
    }
}

/// The target of a copy.
pub struct Place {
    pub device: Device,
    pub stream: StreamHandle,
}

/// # Safety
/// Always safe: this function only fails.
pub unsafe fn copied(_: &ArcTensor, _: Option<StreamHandle>, _: Place) -> Result<Tensor> {
    Err(Failure)
}

/// # Safety
/// Always safe: this function only fails.
pub unsafe fn order(_: (Device, StreamHandle), _: (Device, StreamHandle)) -> Result<()> {
    Err(Failure)
}

/// # Safety
/// Always safe: this function only fails.
pub unsafe fn wait(_: Device, _: StreamHandle) -> Result<()> {
    Err(Failure)
}

/// # Safety
/// Always safe: this function only fails.
pub unsafe fn after_stream(_: Tensor, _: StreamHandle) -> Result<Tensor> {
    Err(Failure)
}
