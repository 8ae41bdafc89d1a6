//! An export through `__dlpack__`, from top to bottom: **read** the consumer's options, **satisfy** them, and **hand
//! over** a capsule. It mirrors an import (`import/mod.rs`).

use dlbridge::{Device, Error, Tensor, TensorRef};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyInt, PyTuple};

use super::device_copy::copied;
use super::dlpack::{expect_pair, must_move};
use crate::borrow::Guard;
use crate::error::to_py_err;
use crate::import_options::{expect_bool, wrong_type};
use crate::stream::{self, DataStream};
use crate::{PyTensor, capsule, copies, gpu};

/// The keywords of a call of `__dlpack__`, as passed.
pub(crate) struct Keywords<'a, 'py> {
    pub(crate) stream: Option<&'a Bound<'py, PyAny>>,
    pub(crate) max_version: Option<&'a Bound<'py, PyAny>>,
    pub(crate) dl_device: Option<&'a Bound<'py, PyAny>>,
    pub(crate) copy: Option<&'a Bound<'py, PyAny>>,
}

/// Exports a tensor for a call of `__dlpack__`.
///
/// The capsule is versioned if the consumer supports version 1 or later. With `copy=None` the data is copied only if
/// it cannot be shared:
/// - the consumer supports only legacy capsules, and the data is read-only or has padded elements of less than a
///   byte;
/// - the consumer requests the CPU, and the data is in host-accessible memory of another device;
/// - the consumer requests another device, and the CUDA driver can copy between the two.
///
/// Data of a legacy producer is marked read-only in a versioned capsule, because its producer did not say whether it
/// may be written. A legacy consumer gets it unmarked.
pub(crate) fn export<'py>(
    py: Python<'py>,
    exporter: &PyTensor,
    keywords: &Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let options = ExportOptions::read(keywords, exporter)?;
    let offer = options.satisfy(py, exporter, keywords.stream)?;
    offer.into_capsule(py, exporter, options.versioned)
}

/// Read: the options of the consumer.
#[derive(Clone, Copy)]
struct ExportOptions {
    /// True if the consumer supports versioned capsules.
    versioned: bool,
    copy: Option<bool>,
    /// The requested device.
    to: Device,
}

impl ExportOptions {
    fn read(keywords: &Keywords<'_, '_>, exporter: &PyTensor) -> PyResult<Self> {
        let versioned = keywords.max_version.map(|v| major(v)).transpose()?.is_some_and(|v| v >= 1);
        let copy = keywords.copy.map(|copy| expect_bool("copy", copy)).transpose()?;
        let to = match keywords.dl_device {
            Some(asked) => expect_device("dl_device", asked)?,
            None => exporter.tensor().device(),
        };
        Ok(Self { versioned, copy, to })
    }

    /// Satisfies the options: copies if the memory cannot be shared, otherwise makes the consumer's stream wait.
    fn satisfy(
        self,
        py: Python<'_>,
        exporter: &PyTensor,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Offer> {
        let Self { versioned, copy, to } = self;
        let tensor = exporter.tensor();
        let mut moved = false;
        if copy == Some(true) || to != tensor.device() {
            if copy != Some(false) && gpu::is_possible(tensor.device(), to) {
                return copied_to(py, exporter, to, stream).map(Offer::Copy);
            }
            moved = must_move(tensor.device(), to)?;
        }
        if stream.is_some() || !tensor.device().device_type().is_host_accessible() {
            put_in_order(py, exporter, stream)?;
        }
        let inexpressible = !versioned && (tensor.is_read_only() || tensor.is_subbyte_padded());
        if copy == Some(true) || moved || inexpressible {
            if copy == Some(false) {
                return Err(match (inexpressible, tensor.is_read_only()) {
                    (true, true) => to_py_err(Error::LegacyReadOnly),
                    (true, false) => to_py_err(Error::LegacySubbytePadded),
                    _ => PyBufferError::new_err(format!(
                        "moving the data from {} to the CPU needs a copy; leave out copy=False",
                        tensor.device()
                    )),
                });
            }
            let _reading = Guard::for_copy(tensor)?;
            return copies::copied(&TensorRef::from(&**tensor), 1).map(Offer::Copy);
        }
        Ok(Offer::Shared)
    }
}

/// The memory that the consumer gets.
enum Offer {
    /// The exporter's own.
    Shared,
    /// A copy that only the consumer has.
    Copy(Tensor),
}

impl Offer {
    /// Hands over a capsule.
    fn into_capsule<'py>(
        self,
        py: Python<'py>,
        exporter: &PyTensor,
        versioned: bool,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        match (self, versioned) {
            (Self::Copy(tensor), versioned) => give(py, tensor, versioned),
            // SAFETY: the managed tensor was just made, and only the capsule gets it.
            (Self::Shared, true) => unsafe { capsule::versioned(py, exporter.to_raw()?) },
            // SAFETY: the managed tensor was just made, and only the capsule gets it.
            (Self::Shared, false) => unsafe { capsule::legacy(py, exporter.to_raw_legacy()?) },
        }
    }
}

/// A capsule that owns the tensor.
fn give(py: Python<'_>, tensor: Tensor, versioned: bool) -> PyResult<Bound<'_, PyCapsule>> {
    if versioned {
        // SAFETY: the managed tensor is made from a tensor of ours, and only the capsule gets it.
        return unsafe { capsule::versioned(py, tensor.into_raw()) };
    }
    let managed = tensor.into_raw_legacy().map_err(|(_, error)| to_py_err(error))?;
    // SAFETY: the managed tensor is made from a tensor of ours, and only the capsule gets it.
    unsafe { capsule::legacy(py, managed) }
}

/// The major version of a `max_version`.
fn major(max_version: &Bound<'_, PyAny>) -> PyResult<i64> {
    // A consumer passes the same tuple in every call. A tuple of exact integers never changes.
    static SEEN: [PyOnceLock<(Py<PyAny>, i64)>; 4] = [const { PyOnceLock::new() }; 4];
    let py = max_version.py();
    for (seen, major) in SEEN.iter().map_while(|seen| seen.get(py)) {
        if max_version.is(seen) {
            return Ok(*major);
        }
    }
    let wrong =
        || wrong_type("max_version", "None or a tuple of two integers like (1, 3)", max_version);
    let tuple = max_version.cast::<PyTuple>().map_err(|_| wrong())?;
    let (major, _minor) = tuple.extract::<(i64, i64)>().map_err(|_| wrong())?;
    if tuple.is_exact_instance_of::<PyTuple>()
        && tuple.iter_borrowed().all(|number| number.is_exact_instance_of::<PyInt>())
        && let Some(free) = SEEN.iter().find(|seen| seen.get(py).is_none())
    {
        let _ = free.set(py, (max_version.clone().unbind(), major));
    }
    Ok(major)
}

fn expect_device(argument: &str, dl_device: &Bound<'_, PyAny>) -> PyResult<Device> {
    expect_pair(argument, "None or a tuple of two integers like (1, 0)", dl_device)
}

/// Makes the consumer's stream wait for the stream of the data.
#[cold]
fn put_in_order(
    py: Python<'_>,
    exporter: &PyTensor,
    stream: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let device = exporter.tensor().device();
    match stream {
        // By the standard, `None` is right for devices without streams.
        None if !stream::has_streams(device) => Ok(()),
        None => stream::order(py, device, exporter.stream(), &DataStream::Default),
        Some(stream) => {
            let consumers = DataStream::expect(stream, device)?;
            stream::order(py, device, exporter.stream(), &consumers)
        }
    }
}

/// A copy on a device, or on the CPU of data on a device.
#[cold]
fn copied_to(
    py: Python<'_>,
    exporter: &PyTensor,
    to: Device,
    stream: Option<&Bound<'_, PyAny>>,
) -> PyResult<Tensor> {
    let consumers = match (to == Device::CPU, stream) {
        (true, stream) => {
            stream::expect_none(stream)?;
            *exporter.stream()
        }
        (false, None) => DataStream::Default,
        (false, Some(stream)) => DataStream::expect(stream, to)?,
    };
    copied(py, exporter.tensor(), exporter.stream(), to, &consumers)
}
