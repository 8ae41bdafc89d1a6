//! Streams: with which one what is under way on a device is put in order.
//!
//! Source: the keyword `stream` of `__dlpack__` in the array API standard 2024.12.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use dlbridge::{Device, DeviceType};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

/// The handle of the stream that a caller works on, for data on a device.
pub(crate) type StreamOf = fn(Device) -> PyResult<*mut c_void>;

/// The stream with which an import is in order.
pub(crate) struct Streams {
    /// The caller's; the default one of the device if there is none.
    chosen: Option<StreamOf>,
    /// What the caller said, who is asked once for a device.
    known: Cell<Option<(Device, *mut c_void)>>,
}

impl Streams {
    /// The default stream of each device.
    pub(crate) const fn default() -> Self {
        Self { chosen: None, known: Cell::new(None) }
    }

    /// The stream of the caller's choice, a live one of the device.
    pub(crate) const fn chosen(stream_of: StreamOf) -> Self {
        Self { chosen: Some(stream_of), known: Cell::new(None) }
    }

    /// The handle of the stream: NULL is the default one, or that the device is the CPU.
    pub(crate) fn handle(&self, device: Device) -> PyResult<*mut c_void> {
        let Some(stream_of) = self.chosen.filter(|_| !device.device_type().is_host_accessible())
        else {
            return Ok(ptr::null_mut());
        };
        match self.known.get() {
            Some((known, handle)) if known == device => Ok(handle),
            _ => {
                let handle = stream_of(device)?;
                self.known.set(Some((device, handle)));
                Ok(handle)
            }
        }
    }

    /// What a producer is asked for; nothing where the standard has no number for streams, or it is not known
    /// where the data is. A producer that is not asked has to take the default stream, by the standard, but
    /// not every one does.
    pub(crate) fn number(&self, device: Option<Device>) -> PyResult<Option<i64>> {
        let Some(device) = device else { return Ok(None) };
        let handle = self.handle(device)?;
        let wrong = |why: &str| {
            Err(PyValueError::new_err(format!(
                "the stream for data on {device} is {:#x}, {why}",
                handle.addr()
            )))
        };
        // As DLPack has it, -1 asks not to synchronise.
        let handle_number = i64::try_from(handle.addr());
        match (device.device_type(), handle_number) {
            (DeviceType::CUDA | DeviceType::CUDA_MANAGED | DeviceType::ROCM, Err(_)) => {
                wrong("which is no handle")
            }
            (DeviceType::CUDA | DeviceType::CUDA_MANAGED, Ok(0)) => Ok(Some(1)),
            (DeviceType::ROCM, Ok(1 | 2)) => {
                wrong("which ROCm has no stream for; its default one is NULL")
            }
            (DeviceType::CUDA | DeviceType::CUDA_MANAGED | DeviceType::ROCM, Ok(number)) => {
                Ok(Some(number))
            }
            (_, Ok(0)) => Ok(None),
            _ => Err(PyBufferError::new_err(format!(
                "a stream is named for data on {device}, for which DLPack has no number that a \
                 producer could be asked to synchronise with"
            ))),
        }
    }

    /// Refuses a stream that a producer was not asked to synchronise with, as it did not say in advance
    /// on which device its data is.
    pub(crate) fn check_asked(&self, claimed: Option<Device>, found: Device) -> PyResult<()> {
        if claimed.is_some() || self.number(Some(found))? == Self::default().number(Some(found))? {
            return Ok(());
        }
        Err(PyBufferError::new_err(format!(
            "the data is on {found}, and its producer, which has no __dlpack_device__, was not asked to \
             synchronise with the stream {:#x}; take the default stream",
            self.handle(found)?.addr()
        )))
    }
}
