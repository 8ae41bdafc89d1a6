//! Exports through `__dlpack__`.

use dlbridge::{Device, Error, Tensor, TensorRef};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use super::Protocol;
use super::dlpack::{expect_pair, must_move};
use super::moved::copied;
use super::stream::{self, DataStream};
use crate::borrow::Guard;
use crate::error::to_py_err;
use crate::wanted::{expect_bool, wrong_type};
use crate::{PyTensor, capsule, copies, gpu};

/// The keywords of a call of `__dlpack__`, as they came.
pub(crate) struct Request<'a, 'py> {
    pub(crate) stream: Option<&'a Bound<'py, PyAny>>,
    pub(crate) max_version: Option<&'a Bound<'py, PyAny>>,
    pub(crate) dl_device: Option<&'a Bound<'py, PyAny>>,
    pub(crate) copy: Option<&'a Bound<'py, PyAny>>,
}

/// Answers a call of `__dlpack__`.
///
/// The capsule is versioned if the consumer understands version 1 or later. With `copy=None` the data is copied only where
/// it cannot be shared:
/// - the consumer takes legacy capsules, and the data is read-only or has padded elements of less than a byte;
/// - the consumer asks for the CPU, and the data is in host-accessible memory of another device;
/// - the consumer asks for another device, and one of the two is a GPU whose driver is loaded.
///
/// Data of a legacy producer is marked read-only in a versioned capsule, because its producer did not say if it may be
/// written. A legacy consumer gets it as it is.
pub(crate) fn export<'py>(
    py: Python<'py>,
    lender: &PyTensor,
    request: &Request<'_, 'py>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let tensor = lender.tensor();
    let versioned = request.max_version.map(|v| major(v)).transpose()?.is_some_and(|v| v >= 1);
    let copy = request.copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    let to = match request.dl_device {
        Some(asked) => expect_device("dl_device", asked)?,
        None => tensor.device(),
    };
    let mut moved = false;
    if copy == Some(true) || to != tensor.device() {
        if copy != Some(false) && gpu::is_possible(tensor.device(), to) {
            return give(py, copied_to(py, lender, to, request.stream)?, versioned);
        }
        moved = must_move(tensor.device(), to)?;
    }
    if request.stream.is_some() || !tensor.device().device_type().is_host_accessible() {
        put_in_order(py, lender, request.stream)?;
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
        let _reading = Guard::reading(tensor, "tensor that is copied")?;
        return give(py, copies::copied(&TensorRef::from(&**tensor), 1)?, versioned);
    }
    match versioned {
        // SAFETY: just lent, and given to the capsule alone.
        true => unsafe { capsule::versioned(py, lender.lend(Protocol::Dlpack)?) },
        // SAFETY: as above.
        false => unsafe { capsule::legacy(py, lender.lend_legacy()?) },
    }
}

/// A capsule that owns the tensor.
fn give(py: Python<'_>, tensor: Tensor, versioned: bool) -> PyResult<Bound<'_, PyCapsule>> {
    if versioned {
        // SAFETY: a tensor of ours, given to the capsule alone.
        return unsafe { capsule::versioned(py, tensor.into_raw()) };
    }
    let managed = tensor.into_raw_legacy().map_err(|(_, error)| to_py_err(error))?;
    // SAFETY: as above.
    unsafe { capsule::legacy(py, managed) }
}

/// The major version of a `max_version`.
fn major(max_version: &Bound<'_, PyAny>) -> PyResult<i64> {
    let wrong =
        || wrong_type("max_version", "None or a tuple of two integers like (1, 3)", max_version);
    let tuple = max_version.cast::<PyTuple>().map_err(|_| wrong())?;
    let (major, _minor) = tuple.extract::<(i64, i64)>().map_err(|_| wrong())?;
    Ok(major)
}

fn expect_device(argument: &str, dl_device: &Bound<'_, PyAny>) -> PyResult<Device> {
    expect_pair(argument, "None or a tuple of two integers like (1, 0)", dl_device)
}

/// Makes the consumer's stream wait for the one that the data is in the order of.
#[cold]
fn put_in_order(
    py: Python<'_>,
    lender: &PyTensor,
    stream: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let device = lender.tensor().device();
    match stream {
        // What the standard takes it for.
        None if !stream::has_streams(device) => Ok(()),
        None => stream::order(py, device, lender.stream(), &DataStream::Default),
        Some(stream) => {
            let consumers = DataStream::expect(stream, device)?;
            stream::order(py, device, lender.stream(), &consumers)
        }
    }
}

/// A copy on a device, or of what is on one on the CPU.
#[cold]
fn copied_to(
    py: Python<'_>,
    lender: &PyTensor,
    to: Device,
    stream: Option<&Bound<'_, PyAny>>,
) -> PyResult<Tensor> {
    let consumers = match (to == Device::CPU, stream) {
        (true, stream) => {
            stream::expect_none(stream)?;
            lender.stream().clone_ref(py)
        }
        (false, None) => DataStream::Default,
        (false, Some(stream)) => DataStream::expect(stream, to)?,
    };
    copied(py, lender.tensor(), lender.stream(), to, &consumers)
}
