//! `__cuda_array_interface__`: the array interface for memory of CUDA, as a consumer and as a
//! producer.
//!
//! Source: "CUDA Array Interface (Version 3)" in the manual of Numba.

use std::ptr;

use dlbridge::{Device, DeviceType, Tensor};
use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::array_interface::{Interface, fields};
use super::memory::Memory;
use super::stream::Streams;
use super::typestr::ElementType;
use super::{Imported, Protocol, attribute};
use crate::cuda_driver::CudaDriver;
use crate::wanted::Wanted;

/// The stream that all others wait for.
const LEGACY_DEFAULT_STREAM: usize = 1;

/// Imports an object that has `__cuda_array_interface__`; `None` for one that has not.
///
/// The device is the one that the driver finds the address on. What the producer has under way on
/// the stream it names is waited for, unless that is the one that the caller works on.
pub(super) fn import(
    object: &Bound<'_, PyAny>,
    wanted: &Wanted,
    streams: &Streams,
) -> PyResult<Option<Imported>> {
    let name = intern!(object.py(), "__cuda_array_interface__");
    let Some(interface) = attribute(object, name)? else { return Ok(None) };
    let interface = Interface::new(object, interface)?;
    let shape = interface.shape()?;
    let strides = interface.byte_strides(shape.len())?;
    let ElementType { dtype, byte_swapped } = interface.element_type()?;
    let address = interface.address()?;
    let (address, read_only) =
        address.ok_or_else(|| interface.wrong("data", "an address and a bool"))?;
    let stream = interface.field("stream")?.map(|stream| stream.extract::<usize>());
    let stream = stream.transpose().map_err(|_| interface.wrong("stream", "None or an integer"))?;
    if stream == Some(0) {
        return Err(interface.wrong("stream", "1 or 2 for a default stream, never 0,"));
    }
    let device = match shape.contains(&0) {
        // Without elements there is no address to ask for.
        true => Device::new(DeviceType::CUDA, 0),
        false => locate(address)?,
    };
    if let Some(wanted) = wanted.device.filter(|&wanted| wanted != device) {
        return Err(PyBufferError::new_err(format!(
            "the data is on {device} and cannot be imported on {wanted}; move it first"
        )));
    }
    let ours = streams.number(Some(device))?;
    if let Some(stream) = stream.filter(|&stream| i64::try_from(stream).ok() != ours) {
        let driver = CudaDriver::get().map_err(no_driver)?;
        // Others run meanwhile: work on the stream may wait for Python code.
        // SAFETY: the protocol: a stream that the producer works on now.
        let waited = object.py().detach(|| unsafe { driver.synchronize(stream) });
        waited.map_err(|status| {
            PyBufferError::new_err(format!(
                "the CUDA driver cannot wait for the producer's stream {stream}: error {status}"
            ))
        })?;
    }
    let memory = Memory {
        door: "CUDA array interface",
        data: ptr::with_exposed_provenance_mut(address),
        dtype,
        byte_swapped,
        shape: &shape,
        byte_strides: strides.as_deref(),
        device,
        read_only,
        subbyte_padded: dtype.is_subbyte(),
    };
    let owner = interface.owner()?;
    // SAFETY: the protocol: the memory is valid while the owner lives.
    let (tensor, reason) = unsafe { memory.into_tensor(owner, wanted.copy) }?;
    Ok(Some(Imported { reason, ..Imported::new(tensor, Protocol::CudaArrayInterface) }))
}

fn locate(address: usize) -> PyResult<Device> {
    let pointer = CudaDriver::get().map_err(no_driver)?.locate(address).map_err(|status| {
        PyBufferError::new_err(format!(
            "the CUDA driver does not know the address {address:#x}: error {status}; the producer's \
             __cuda_array_interface__ must give memory of CUDA"
        ))
    })?;
    let device_type = if pointer.is_managed { DeviceType::CUDA_MANAGED } else { DeviceType::CUDA };
    Ok(Device::new(device_type, pointer.device))
}

fn no_driver(reason: &str) -> PyErr {
    PyBufferError::new_err(format!(
        "the CUDA driver is needed to tell the device of a __cuda_array_interface__, and cannot be \
         used: {reason}"
    ))
}

/// The dictionary over a tensor, or an `AttributeError` if there can be none.
pub(crate) fn export<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    read_only: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let device = tensor.device();
    let kinds = [DeviceType::CUDA, DeviceType::CUDA_MANAGED, DeviceType::ROCM];
    if !kinds.contains(&device.device_type()) {
        return Err(PyAttributeError::new_err(format!(
            "__cuda_array_interface__: the data is on {device}"
        )));
    }
    let fields = fields(py, tensor, read_only)?;
    // A tensor's data is in the order of the default stream.
    fields.set_item("stream", LEGACY_DEFAULT_STREAM)?;
    Ok(fields)
}
