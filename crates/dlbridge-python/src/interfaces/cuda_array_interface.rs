//! `__cuda_array_interface__`, import and export: the array interface for CUDA memory.
//!
//! Source: "CUDA Array Interface (Version 3)" in the manual of Numba.

use std::ptr;

use dlbridge::{Device, DeviceType};
use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::array_interface::{Interface, fields};
use crate::device::{self, Streams, is_possible};
use crate::memory::{Memory, access};
use dlbridge_gpu::Driver;
use dlbridge_pyo3::PyTensor;
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::{Imported, Protocol};
use dlbridge_pyo3::stream::{DataStream, has_streams};

/// Imports an object that has `__cuda_array_interface__`; `None` for an object without it.
///
/// The driver determines the device of the address. The caller's stream waits for the producer's pending writes on
/// the stream that the producer names.
pub(crate) fn import<'py>(
    object: &Bound<'py, PyAny>,
    options: &ImportOptions,
    streams: Streams<'_, 'py>,
) -> PyResult<Option<Imported>> {
    let name = intern!(object.py(), "__cuda_array_interface__");
    let Some(interface) = Interface::of(object, name)? else { return Ok(None) };
    let elements = interface.elements(Protocol::CudaArrayInterface)?;
    let address = interface.address()?;
    let (address, read_only) =
        address.ok_or_else(|| interface.wrong("data", "an address and a bool"))?;
    let stream = interface.field("stream")?.map(|stream| stream.extract::<usize>());
    let stream = stream.transpose().map_err(|_| interface.wrong("stream", "None or an integer"))?;
    let stream = match stream {
        Some(0) => return Err(interface.wrong("stream", "1 or 2 for a default stream, never 0,")),
        // Without a stream, nothing is pending.
        None => DataStream::Unsynchronized,
        Some(1) => DataStream::Default,
        Some(2) => DataStream::per_thread(),
        Some(handle) => DataStream::Handle(handle),
    };
    let nowhere = (Device::new(DeviceType::CUDA, 0), 0);
    let (device, number) = match elements.shape.contains(&0) {
        // Without elements the address may be 0.
        true if address == 0 => nowhere,
        true => locate(address).unwrap_or(nowhere),
        false => locate(address)?,
    };
    // Elements that can be copied to the device are copied afterwards.
    let out_of_reach =
        |to: Device| to != device && (options.copy == Some(false) || !is_possible(device, to));
    if let Some(wanted) = options.device.filter(|&to| out_of_reach(to)) {
        return Err(PyBufferError::new_err(format!(
            "the data is on {device} and cannot be imported on {wanted}; move it first"
        )));
    }
    // A kernel may also write pinned memory of the CPU, so its writes are synchronised on its device.
    match device.device_type() {
        DeviceType::CUDA_HOST => {
            let on = Device::new(DeviceType::CUDA, number);
            device::wait(object.py(), on, &stream)?;
        }
        _ => device::order(object.py(), device, &stream, &streams.on_source(device, options)?)?,
    }
    let data = ptr::with_exposed_provenance_mut(address);
    let memory = Memory { data, device, access: access(read_only), ..elements };
    let owner = interface.owner()?;
    // SAFETY: the protocol: the memory is valid while the owner lives.
    unsafe { memory.import(owner, options.copy) }.map(Some)
}

fn locate(address: usize) -> PyResult<(Device, i32)> {
    let driver = Driver::of(DeviceType::CUDA).map_err(|failure| {
        PyBufferError::new_err(format!(
            "the CUDA driver is needed to find the device of a __cuda_array_interface__: {failure}"
        ))
    })?;
    driver.locate(address).map_err(|failure| {
        let text = format!(
            "the CUDA driver does not know the address {address:#x}: {failure}; the producer's \
             __cuda_array_interface__ must give memory of CUDA"
        );
        device::refused(&failure, text)
    })
}

/// The dictionary over a tensor; `AttributeError` if the tensor has none.
pub(crate) fn export<'py>(py: Python<'py>, tensor: &PyTensor) -> PyResult<Bound<'py, PyDict>> {
    let device = tensor.tensor().device();
    if !has_streams(device) {
        return Err(PyAttributeError::new_err(format!(
            "__cuda_array_interface__: the data is on {device}"
        )));
    }
    let fields = fields(py, tensor.tensor(), tensor.is_read_only())?;
    let stream = match tensor.stream() {
        // The consumer need not wait.
        DataStream::Unsynchronized => py.None().into_bound(py),
        // On ROCm, the legacy default stream has the number 1 there too.
        DataStream::Default => 1_i32.into_pyobject(py)?.into_any(),
        stream => stream.to_object(py, device)?,
    };
    fields.set_item("stream", stream)?;
    Ok(fields)
}
