//! Streams: with which one the work that is under way on a device is put in order.
//!
//! Source: the keyword `stream` of `__dlpack__` in the array API standard 2024.12; for oneAPI what dpctl and dpnp do.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::thread::{self, ThreadId};

use dlbridge::{Device, DeviceType};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList};

use crate::gpu;
use crate::wanted::{Wanted, wrong_type};

/// The handle of the stream that a caller works on, for data on a device.
pub(crate) type StreamOf = fn(Device) -> PyResult<*mut c_void>;

/// The handle of CUDA's default stream of each thread.
const PER_THREAD: usize = 2;

/// The stream that data is in the order of.
#[derive(Debug)]
pub(crate) enum DataStream {
    /// The default one of the device: on CUDA the legacy one. On devices without streams there is no other.
    Default,
    /// None that is known: the program sees to the order itself.
    Unsynchronized,
    /// The handle of a stream of CUDA or ROCm.
    Handle(usize),
    /// CUDA's default stream of a thread, which has the same handle on each.
    PerThread(ThreadId),
    /// A queue of SYCL, as an object of dpctl.
    Queue(Py<PyAny>),
}

impl DataStream {
    /// What a caller names by an argument `stream`, for data on a device.
    pub(crate) fn expect(stream: &Bound<'_, PyAny>, device: Device) -> PyResult<Self> {
        const EXPECTED: &str = "None or an integer";
        let number = match stream.cast::<PyInt>() {
            Ok(number) if !stream.is_instance_of::<PyBool>() => number.extract::<i64>(),
            _ if device.device_type() == DeviceType::ONE_API => return Self::queue(stream),
            _ => return Err(wrong_type("stream", EXPECTED, stream)),
        };
        let refused = |why: &str| {
            Err(PyValueError::new_err(format!(
                "stream is {stream}, {why}; the data is on {device}"
            )))
        };
        match (kind(device), number) {
            (None, Ok(-1)) if device.device_type() != DeviceType::ONE_API => Ok(Self::Default),
            (_, Ok(-1)) => Ok(Self::Unsynchronized),
            (None, _) => Err(PyValueError::new_err(format!(
                "stream must be None for data on {device}, which has no streams with numbers; got {stream}"
            ))),
            (Some(_), Err(_)) | (Some(_), Ok(i64::MIN..=-2)) => {
                refused("which is the number of no stream")
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

    /// CUDA's default stream of this thread.
    pub(crate) fn per_thread() -> Self {
        Self::PerThread(thread::current().id())
    }

    fn queue(stream: &Bound<'_, PyAny>) -> PyResult<Self> {
        let has_barriers = stream.getattr_opt(intern!(stream.py(), "submit_barrier"))?.is_some();
        match has_barriers && !stream.is_none() {
            true => Ok(Self::Queue(stream.clone().unbind())),
            false => Err(wrong_type("stream", "None or a dpctl.SyclQueue", stream)),
        }
    }

    /// The stream of what somebody hands to a device's driver: NULL is the default one, and CUDA has a second name for it.
    pub(crate) fn of_handle(device: Device, handle: *mut c_void) -> Self {
        match (kind(device), handle.addr()) {
            (_, 0) | (Some(Kind::Cuda), 1) => Self::Default,
            (Some(Kind::Cuda), PER_THREAD) => Self::per_thread(),
            (_, handle) => Self::Handle(handle),
        }
    }

    /// What the driver knows the stream by on this thread; none for one that is not known, or is no driver's. The default
    /// stream of another thread has no name here, but the legacy stream waits for it.
    pub(crate) fn handle(&self) -> Option<usize> {
        match self {
            Self::Default => Some(0),
            Self::Handle(handle) => Some(*handle),
            Self::PerThread(thread) if *thread == thread::current().id() => Some(PER_THREAD),
            Self::PerThread(_) => Some(0),
            Self::Unsynchronized | Self::Queue(_) => None,
        }
    }

    /// What Python is told: the number by the standard, or the queue; `None` where there are no streams.
    pub(crate) fn to_object<'py>(
        &self,
        py: Python<'py>,
        device: Device,
    ) -> PyResult<Bound<'py, PyAny>> {
        let number = match self {
            Self::Queue(queue) => return Ok(queue.bind(py).clone()),
            Self::Unsynchronized if kind(device).is_none() => return Ok(py.None().into_bound(py)),
            Self::Unsynchronized => -1,
            Self::Handle(handle) => i64::try_from(*handle)?,
            Self::PerThread(thread) if *thread == thread::current().id() => PER_THREAD as i64,
            Self::Default | Self::PerThread(_) => match kind(device) {
                Some(Kind::Cuda) => 1,
                Some(Kind::Rocm) => 0,
                None => return Ok(py.None().into_bound(py)),
            },
        };
        Ok(number.into_pyobject(py)?.into_any())
    }

    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Default => Self::Default,
            Self::Unsynchronized => Self::Unsynchronized,
            Self::Handle(handle) => Self::Handle(*handle),
            Self::PerThread(thread) => Self::PerThread(*thread),
            Self::Queue(queue) => Self::Queue(queue.clone_ref(py)),
        }
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

/// Whether the driver of a device can put its streams in order.
pub(crate) fn has_streams(device: Device) -> bool {
    kind(device).is_some()
}

/// Makes a stream wait for what is under way on another of the same device.
pub(crate) fn order(
    py: Python<'_>,
    device: Device,
    passed: &DataStream,
    waiting: &DataStream,
) -> PyResult<()> {
    match (passed, waiting) {
        (DataStream::Unsynchronized, _) | (_, DataStream::Unsynchronized) => Ok(()),
        (DataStream::Queue(passed), DataStream::Queue(waiting)) => {
            order_queues(passed.bind(py), waiting.bind(py))
        }
        (DataStream::Queue(_), _) | (_, DataStream::Queue(_)) => {
            Err(PyBufferError::new_err(format!(
                "the queue that the data on {device} is in the order of is not known, so that no other can wait for it; \
             name it when the tensor is imported, asdlpack(x, stream=queue), or wait for it and leave out stream"
            )))
        }
        _ if passed.handle() == waiting.handle() => Ok(()),
        _ => {
            let of = |stream: &DataStream| (device, stream.handle().unwrap_or_default());
            let (from, to) = (of(passed), of(waiting));
            // SAFETY: who names a stream promises that it lives.
            py.detach(|| unsafe { gpu::order(from, to) }).map_err(|failure| {
                let number = |stream: &DataStream| {
                    stream.to_object(py, device).map_or(String::new(), |number| number.to_string())
                };
                PyBufferError::new_err(format!(
                    "the data on {device} is in the order of stream {} and cannot be put in that of stream {}: \
                     {failure}; pass stream=-1 and synchronise yourself",
                    number(passed),
                    number(waiting)
                ))
            })
        }
    }
}

/// Waits for what is under way on a stream of CUDA, for who reads on the CPU.
pub(crate) fn wait(py: Python<'_>, device: Device, stream: &DataStream) -> PyResult<()> {
    let Some(handle) = stream.handle() else { return Ok(()) };
    // Others run meanwhile: what is under way may wait for Python code.
    // SAFETY: who names a stream promises that it lives.
    py.detach(|| unsafe { gpu::wait(device, handle) }).map_err(|failure| {
        PyBufferError::new_err(format!(
            "what is under way on {device} cannot be waited for: {failure}"
        ))
    })
}

/// As dpctl's own arrays do it: a barrier on one queue that a barrier on the other depends on.
fn order_queues(passed: &Bound<'_, PyAny>, waiting: &Bound<'_, PyAny>) -> PyResult<()> {
    if passed.eq(waiting)? {
        return Ok(());
    }
    let submit_barrier = intern!(passed.py(), "submit_barrier");
    let event = passed.call_method0(submit_barrier)?;
    waiting.call_method1(submit_barrier, (PyList::new(passed.py(), [event])?,))?;
    Ok(())
}

/// The stream with which an import is in order.
pub(crate) struct Streams<'a, 'py> {
    choice: Choice<'a, 'py>,
    /// What the caller said, who is asked once for a device.
    known: Cell<Option<(Device, *mut c_void)>>,
}

#[derive(Clone, Copy)]
enum Choice<'a, 'py> {
    /// The default stream of each device.
    Default,
    /// A stream of an extension's.
    Of(StreamOf),
    /// What a caller from Python names.
    Named(&'a Bound<'py, PyAny>),
}

impl<'a, 'py> Streams<'a, 'py> {
    /// The default stream of each device.
    pub(crate) const fn default() -> Self {
        Self { choice: Choice::Default, known: Cell::new(None) }
    }

    /// The stream of the caller's choice, a live one of the device.
    pub(crate) const fn chosen(stream_of: StreamOf) -> Self {
        Self { choice: Choice::Of(stream_of), known: Cell::new(None) }
    }

    /// The stream that is the argument of a call.
    pub(crate) const fn named(stream: &'a Bound<'py, PyAny>) -> Self {
        Self { choice: Choice::Named(stream), known: Cell::new(None) }
    }

    /// Whether the caller said nothing.
    pub(crate) const fn is_default(&self) -> bool {
        matches!(self.choice, Choice::Default)
    }

    /// The handle of the stream for an extension: NULL is the default one, or that the device is the CPU.
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
    pub(crate) fn on(&self, device: Device) -> PyResult<DataStream> {
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

    /// The stream for data on the device that it comes from: that of the caller is of the device that it goes to, if that is
    /// another one with streams.
    pub(crate) fn on_source(&self, device: Device, wanted: &Wanted) -> PyResult<DataStream> {
        match wanted.device.is_some_and(|to| to != device && has_streams(to)) {
            true => Ok(DataStream::Default),
            false => self.on(device),
        }
    }

    /// Refuses a handle of an extension that no producer can be told.
    fn check_handle(&self, device: Device, handle: usize) -> PyResult<()> {
        let wrong = |why: &str| {
            let refusal = format!("the stream for data on {device} is {handle:#x}, {why}");
            Err(PyValueError::new_err(refusal))
        };
        match (kind(device), i64::try_from(handle)) {
            // As DLPack has it, -1 asks not to synchronise.
            (Some(_), Err(_)) => wrong("which is no handle"),
            (Some(Kind::Rocm), Ok(1 | 2)) => {
                wrong("which ROCm has no stream for; its default one is NULL")
            }
            (None, Ok(1..) | Err(_)) => Err(PyBufferError::new_err(format!(
                "a stream is named for data on {device}, for which DLPack has no number that a \
                 producer could be asked to synchronise with"
            ))),
            _ => Ok(()),
        }
    }

    /// What a producer is asked for; nothing where there are no streams, or it is not known where the data is. A
    /// producer that is not asked has to take the default stream, by the standard, but not every one does.
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

    /// Refuses a stream that a producer was not asked to synchronise with, as it did not say in advance
    /// on which device its data is.
    pub(crate) fn check_asked(&self, claimed: Option<Device>, found: Device) -> PyResult<()> {
        let asked = claimed.is_some() || found.device_type().is_host_accessible();
        if asked || matches!(self.on(found)?, DataStream::Default | DataStream::Unsynchronized) {
            return Ok(());
        }
        let stream = match self.choice {
            Choice::Named(stream) => stream.to_string(),
            _ => format!("{:#x}", self.handle(found)?.addr()),
        };
        Err(PyBufferError::new_err(format!(
            "the data is on {found}, and its producer, which has no __dlpack_device__, was not asked to \
             synchronise with the stream {stream}; take the default stream"
        )))
    }
}

/// The stream that the data of an object is in the order of after its import.
pub(crate) fn of_imported<'py>(
    object: &Bound<'py, PyAny>,
    device: Device,
    streams: &Streams<'_, 'py>,
) -> PyResult<DataStream> {
    if device.device_type().is_host_accessible() && streams.is_default() {
        return Ok(DataStream::Default);
    }
    // An array of SYCL has a queue, which it does not put in order with another unless asked.
    if device.device_type() == DeviceType::ONE_API
        && streams.is_default()
        && let Some(queue) = object.getattr_opt(intern!(object.py(), "sycl_queue"))?
        && let Ok(stream) = DataStream::queue(&queue)
    {
        return Ok(stream);
    }
    streams.on(device)
}

/// The refusal of a stream for what goes to the CPU, where there are none.
pub(crate) fn expect_none(stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    match stream {
        None => Ok(()),
        Some(stream) => Err(PyValueError::new_err(format!(
            "stream must be None for a tensor on the CPU, not {stream}: its elements are there when it is"
        ))),
    }
}
