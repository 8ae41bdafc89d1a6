//! Streams of imports and exports: makes one stream wait for the pending writes on another.
//!
//! Source: the keyword `stream` of `__dlpack__` in the array API standard 2024.12.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::thread::{self, ThreadId};

use dlbridge::{Device, DeviceType};
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyValueError};
use pyo3::prelude::*;

use crate::error::repr_in_message;
use crate::gpu::{self, Failure};
use crate::import_options::{ImportOptions, integer, wrong_type};

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
    /// The stream that the argument `stream` names, for data on a device.
    pub(crate) fn expect(stream: &Bound<'_, PyAny>, device: Device) -> PyResult<Self> {
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
            (None, Ok(-1)) => Ok(Self::Default),
            (_, Ok(-1)) => Ok(Self::Unsynchronized),
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
            (Some(Kind::Cuda), Ok(1)) | (Some(Kind::Rocm), Ok(0)) => Ok(Self::Default),
            (Some(Kind::Rocm), Ok(1 | 2)) => {
                refused("which ROCm does not have: 0 is its default stream")
            }
            (Some(Kind::Cuda), Ok(2)) => Ok(Self::per_thread()),
            (Some(_), Ok(handle)) => Ok(Self::Handle(handle as usize)),
        }
    }

    /// CUDA's per-thread default stream of the current thread.
    pub fn per_thread() -> Self {
        Self::PerThread(thread::current().id())
    }

    /// The stream of a driver's handle: NULL is the default stream, and CUDA has a second handle for it.
    pub(crate) fn of_handle(device: Device, handle: *mut c_void) -> Self {
        match (kind(device), handle.addr()) {
            (_, 0) | (Some(Kind::Cuda), 1) => Self::Default,
            (Some(Kind::Cuda), PER_THREAD) => Self::per_thread(),
            (_, handle) => Self::Handle(handle),
        }
    }

    /// The driver's handle of the stream on this thread; `None` for an unknown stream. The driver has
    /// no handle here for the default stream of another thread, so the result is the legacy stream, which waits for
    /// that stream.
    pub(crate) fn handle(&self) -> Option<usize> {
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
enum Kind {
    Cuda,
    Rocm,
}

fn kind(device: Device) -> Option<Kind> {
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

/// Makes a stream wait for the pending work on another stream of the same device.
pub fn order(
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
            // (docs/safety.md), or those of an implementation of the unsafe trait `Stream`.
            py.detach(|| unsafe { gpu::order(from, to) }).map_err(|failure| {
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
pub fn wait(py: Python<'_>, device: Device, stream: &DataStream) -> PyResult<()> {
    let Some(handle) = stream.handle() else { return Ok(()) };
    // Detached, because the pending work may wait for Python code on other threads.
    // SAFETY: the stream lives: a default one, one that Python code named (docs/safety.md), or of the trait `Stream`.
    py.detach(|| unsafe { gpu::wait(device, handle) }).map_err(|failure| {
        let text = format!("dlbridge cannot wait for the pending work on {device}: {failure}");
        refused(&failure, text)
    })
}

/// The exception for a call that the driver refused.
pub fn refused(failure: &Failure, text: String) -> PyErr {
    match failure.is_out_of_memory() {
        true => PyMemoryError::new_err(text),
        false => PyBufferError::new_err(text),
    }
}

/// The stream that an import synchronises with.
#[derive(Clone)]
pub struct Streams<'a, 'py> {
    choice: Choice<'a, 'py>,
    /// The stream that the extension's function returned, which is called once per device.
    known: Cell<Option<(Device, *mut c_void)>>,
}

#[derive(Clone, Copy)]
enum Choice<'a, 'py> {
    /// The default stream of each device.
    Default,
    /// A stream that an extension chooses.
    Of(StreamOf),
    /// The argument of a Python caller.
    Named(&'a Bound<'py, PyAny>),
}

impl<'a, 'py> Streams<'a, 'py> {
    /// The default stream of each device.
    pub const fn default() -> Self {
        Self { choice: Choice::Default, known: Cell::new(None) }
    }

    /// The stream of the caller's choice, a live one of the device.
    pub(crate) const fn chosen(stream_of: StreamOf) -> Self {
        Self { choice: Choice::Of(stream_of), known: Cell::new(None) }
    }

    /// The stream that is the argument of a call.
    pub const fn named(stream: &'a Bound<'py, PyAny>) -> Self {
        Self { choice: Choice::Named(stream), known: Cell::new(None) }
    }

    /// Returns true if the caller did not choose a stream.
    pub const fn is_default(&self) -> bool {
        matches!(self.choice, Choice::Default)
    }

    /// The handle of the stream for an extension: NULL for the default stream, and for the CPU.
    pub(crate) fn handle(&self, device: Device) -> PyResult<*mut c_void> {
        let Choice::Of(stream_of) = self.choice else { return Ok(ptr::null_mut()) };
        if device.device_type().is_host_accessible() {
            return Ok(ptr::null_mut());
        }
        match self.known.get() {
            Some((known, handle)) if known == device => Ok(handle),
            _ => {
                let handle = stream_of(device)?;
                self.known.set(Some((device, handle)));
                Ok(handle)
            }
        }
    }

    /// The stream for data on a device.
    pub fn on(&self, device: Device) -> PyResult<DataStream> {
        match self.choice {
            Choice::Default => Ok(DataStream::Default),
            Choice::Named(stream) => DataStream::expect(stream, device),
            Choice::Of(_) => {
                let handle = self.handle(device)?;
                self.check_handle(device, handle.addr())?;
                Ok(DataStream::of_handle(device, handle))
            }
        }
    }

    /// The stream for data on its source device. If the data goes to another device with streams, the caller's stream belongs to
    /// that device, so this is the default stream.
    pub fn on_source(&self, device: Device, options: &ImportOptions) -> PyResult<DataStream> {
        match options.device.is_some_and(|to| to != device && has_streams(to)) {
            true => Ok(DataStream::Default),
            false => self.on(device),
        }
    }

    /// Refuses an extension's handle that DLPack cannot pass to a producer.
    fn check_handle(&self, device: Device, handle: usize) -> PyResult<()> {
        let wrong = |why: &str| {
            let refusal = format!("the stream for data on {device} is {handle:#x}, {why}");
            Err(PyValueError::new_err(refusal))
        };
        match (kind(device), i64::try_from(handle)) {
            // In DLPack, -1 requests no synchronisation.
            (Some(_), Err(_)) => wrong("which is not a handle"),
            (Some(Kind::Rocm), Ok(1 | 2)) => {
                wrong("which is not a stream of ROCm; its default one is NULL")
            }
            (None, Ok(1..) | Err(_)) => Err(PyBufferError::new_err(format!(
                "a stream is named for data on {device}, and DLPack does not number its streams, so the \
                 producer cannot synchronise with it"
            ))),
            _ => Ok(()),
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
        if asked || matches!(self.on(found)?, DataStream::Default | DataStream::Unsynchronized) {
            return Ok(());
        }
        let stream = match self.choice {
            Choice::Named(stream) => repr_in_message(stream),
            _ => format!("{:#x}", self.handle(found)?.addr()),
        };
        Err(PyBufferError::new_err(format!(
            "the data is on {found}, and its producer, which lacks __dlpack_device__, was not asked to \
             synchronise with the stream {stream}; use the default stream"
        )))
    }
}

/// Refuses a stream for data that goes to the CPU, which does not have streams.
pub(crate) fn expect_none(stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    match stream {
        None => Ok(()),
        Some(stream) => Err(PyValueError::new_err(format!(
            "stream must be None for a tensor on the CPU, not {}: its elements are complete on return",
            repr_in_message(stream)
        ))),
    }
}
