//! The streams of devices, by their handles and by the numbers that DLPack gives them. The package synchronises them.
//!
//! Source: the keyword `stream` of `__dlpack__` in the array API standard 2024.12.

use std::ffi::c_void;
use std::thread::{self, ThreadId};

use dlbridge::{Device, DeviceType};
use pyo3::prelude::*;

/// The handle of the stream that a caller works on, for data on a device.
pub(crate) type StreamOf = fn(Device) -> PyResult<*mut c_void>;

/// The handle of CUDA's per-thread default stream.
const PER_THREAD: usize = 2;

/// The stream that runs its work after the pending writes to the data.
#[derive(Clone, Copy, Debug)]
pub enum DataStream {
    /// The default stream of the device, on CUDA the legacy one. The only one on devices without streams.
    Default,
    /// Unknown: the program orders the work itself.
    Unsynchronized,
    /// The handle of a CUDA or ROCm stream.
    Handle(usize),
    /// CUDA's per-thread default stream of this thread; the handle is the same on all threads.
    PerThread(ThreadId),
}

impl DataStream {
    /// CUDA's per-thread default stream of the current thread.
    pub fn per_thread() -> Self {
        Self::PerThread(thread::current().id())
    }

    /// The stream of a driver's handle: NULL is the default stream, and CUDA has a second handle for it.
    pub fn of_handle(device: Device, handle: *mut c_void) -> Self {
        match (kind(device), handle.addr()) {
            (_, 0) | (Some(Kind::Cuda), 1) => Self::Default,
            (Some(Kind::Cuda), PER_THREAD) => Self::per_thread(),
            (_, handle) => Self::Handle(handle),
        }
    }

    /// The driver's handle of the stream on this thread; `None` for an unknown stream. The driver has
    /// no handle here for the default stream of another thread, so the result is the legacy stream, which waits for
    /// that stream.
    pub fn handle(&self) -> Option<usize> {
        match self {
            Self::Default => Some(0),
            Self::Handle(handle) => Some(*handle),
            Self::PerThread(thread) if *thread == thread::current().id() => Some(PER_THREAD),
            Self::PerThread(_) => Some(0),
            Self::Unsynchronized => None,
        }
    }

    /// The number of the stream by the standard; `None` on devices without streams.
    pub fn to_object<'py>(self, py: Python<'py>, device: Device) -> PyResult<Bound<'py, PyAny>> {
        let number = match self {
            Self::Unsynchronized if kind(device).is_none() => return Ok(py.None().into_bound(py)),
            Self::Unsynchronized => -1,
            Self::Handle(handle) => i64::try_from(handle)?,
            Self::PerThread(thread) if thread == thread::current().id() => PER_THREAD as i64,
            Self::Default | Self::PerThread(_) => match kind(device) {
                Some(Kind::Cuda) => 1,
                Some(Kind::Rocm) => 0,
                None => return Ok(py.None().into_bound(py)),
            },
        };
        Ok(number.into_pyobject(py)?.into_any())
    }
}

/// The devices whose streams have numbers.
#[derive(Clone, Copy)]
pub enum Kind {
    Cuda,
    Rocm,
}

/// The kind of a device; `None` if its streams lack numbers.
pub fn kind(device: Device) -> Option<Kind> {
    match device.device_type() {
        DeviceType::CUDA | DeviceType::CUDA_MANAGED => Some(Kind::Cuda),
        DeviceType::ROCM => Some(Kind::Rocm),
        _ => None,
    }
}

/// Returns true if the driver of a device can synchronise its streams.
pub fn has_streams(device: Device) -> bool {
    kind(device).is_some()
}
