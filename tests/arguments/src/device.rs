//! Arguments that stay on their device.
//!
//! Most functions return the device, the address of the data and the stream that it is synchronised with. An
//! extension would launch a kernel with these; returning them lets the tests run without a GPU.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlbridge_pyo3::dlbridge::{Device, DeviceType};
use dlbridge_pyo3::{
    Aligned, AnyDataType, COrder, DYNAMIC, DefaultStream, ImportOptions, OnCuda, OnDevice,
    PyDeviceTensor, PyReadonlyTensor, PyTensor, Stream, WorkStream, Writable, producer,
};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

/// The device, the address of the data, and the handle of the stream.
pub(crate) type Place = (String, usize, usize);

pub(crate) struct PerThread;

// SAFETY: CUDA has the stream with this number for every thread and device, at all times.
unsafe impl Stream for PerThread {
    const HANDLE: Option<fn(Device) -> PyResult<*mut c_void>> =
        Some(|device| match device.device_type() {
            DeviceType::CUDA | DeviceType::CUDA_MANAGED => Ok(ptr::without_provenance_mut(2)),
            _ => Err(PyBufferError::new_err(format!("{device} does not have this stream"))),
        });
}

static CHOSEN: AtomicUsize = AtomicUsize::new(0);

pub(crate) struct Chosen;

// SAFETY: the handle comes from Python code, which promises that the stream lives, as for `__dlpack__(stream=...)`.
unsafe impl Stream for Chosen {
    const HANDLE: Option<fn(Device) -> PyResult<*mut c_void>> =
        Some(|_| Ok(ptr::without_provenance_mut(CHOSEN.load(Ordering::Relaxed))));
}

#[pyfunction]
pub(crate) fn choose_stream(handle: usize) {
    CHOSEN.store(handle, Ordering::Relaxed);
}

#[pyfunction]
pub(crate) fn on_chosen_stream(x: PyDeviceTensor<'_, AnyDataType, DYNAMIC, Chosen>) -> Place {
    (x.device().to_string(), x.data().addr(), x.stream().addr())
}

#[pyfunction]
pub(crate) fn on_work_stream(x: PyDeviceTensor<'_, AnyDataType, DYNAMIC>) -> Place {
    (x.device().to_string(), x.data().addr(), x.stream().addr())
}

#[pyfunction]
pub(crate) fn on_default_stream(
    x: PyDeviceTensor<'_, AnyDataType, DYNAMIC, DefaultStream>,
) -> Place {
    (x.device().to_string(), x.data().addr(), x.stream().addr())
}

#[pyfunction]
pub(crate) fn on_own_stream(x: PyDeviceTensor<'_, AnyDataType, DYNAMIC, PerThread>) -> Place {
    (x.device().to_string(), x.data().addr(), x.stream().addr())
}

/// The number of floats that a CUDA kernel would change.
#[pyfunction]
pub(crate) fn to_be_changed(
    x: PyDeviceTensor<'_, f32, 1, WorkStream, (OnCuda, COrder, Writable)>,
) -> usize {
    x.len()
}

#[pyfunction]
pub(crate) fn while_on_device<'py>(
    x: PyDeviceTensor<'py, f64, 1, WorkStream, Writable>,
    function: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let answer = function.call0();
    drop(x);
    answer
}

/// The number of doubles of a tensor on OpenCL, whose data must be aligned to 64 bytes.
#[pyfunction]
pub(crate) fn aligned_on_device(
    x: PyDeviceTensor<
        '_,
        f64,
        1,
        WorkStream,
        (OnDevice<{ DeviceType::OPENCL.code() }>, Aligned<64>),
    >,
) -> usize {
    x.len()
}

/// Imports a tensor of any library, on any device, as a tensor of this extension.
#[pyfunction]
pub(crate) fn kept(x: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
    PyTensor::import(x, &ImportOptions::default())
}

/// A class that keeps a tensor of any device, whose first export may be written.
#[pyclass(frozen)]
pub(crate) struct Lent {
    tensor: PyTensor,
}

impl Lent {
    fn tensor(&self) -> &PyTensor {
        &self.tensor
    }
}

#[producer(Self::tensor)]
#[pymethods]
impl Lent {
    /// Keeps a tensor that its producer copied for this class.
    #[new]
    fn new(x: &Bound<'_, PyAny>) -> PyResult<Self> {
        // SAFETY: the tests pass a producer that made a copy for this object alone.
        let tensor = unsafe { dlbridge_pyo3::import(x)?.assume_exclusive() };
        Ok(Self { tensor: PyTensor::from(tensor) })
    }
}

#[pyfunction]
pub(crate) fn total_of_pinned(
    x: PyReadonlyTensor<'_, f32, 1, OnDevice<{ DeviceType::CUDA_HOST.code() }>>,
) -> f32 {
    x.iter().sum()
}
