//! The functions for the benchmarks from Python, written with pyo3-dlpack.

use std::hint::black_box;
use std::sync::Arc;

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3_dlpack::{IntoDLPack, PyTensor, TensorInfo, cpu_device, dtype_f32};

/// A float32 matrix; the function checks that, because the crate leaves the check to the author.
#[pyfunction]
pub(crate) fn noop(x: &Bound<'_, PyAny>) -> PyResult<()> {
    let tensor = PyTensor::from_pyany(x.py(), x)?;
    if tensor.dtype() != dtype_f32()
        || !tensor.device().is_cpu()
        || tensor.ndim() != 2
        || !tensor.data_ptr().cast::<f32>().is_aligned()
    {
        return Err(PyTypeError::new_err("not a float32 matrix"));
    }
    black_box(tensor.numel());
    Ok(())
}

/// A new tensor as a capsule.
#[pyfunction]
pub(crate) fn new(py: Python<'_>) -> PyResult<Py<PyAny>> {
    make().into_dlpack(py)
}

/// A new tensor as an object that exports it.
#[pyfunction]
pub(crate) fn make() -> Vector {
    Vector(Arc::new(vec![1.0; 24]))
}

/// A vector that Python can export any number of times.
#[pyclass(frozen)]
pub(crate) struct Vector(Arc<Vec<f32>>);

impl IntoDLPack for Vector {
    fn tensor_info(&self) -> TensorInfo {
        let data = self.0.as_ptr().cast_mut().cast();
        TensorInfo::contiguous(data, cpu_device(), dtype_f32(), vec![self.0.len() as i64])
    }
}

#[pymethods]
impl Vector {
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    #[expect(unused_variables, reason = "a legacy capsule of CPU memory satisfies all of them")]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        if copy == Some(true) || dl_device.is_some_and(|device| device != (1, 0)) {
            return Err(PyBufferError::new_err("not without a copy"));
        }
        Vector(Arc::clone(&self.0)).into_dlpack(py)
    }

    fn __dlpack_device__(&self) -> (u32, i32) {
        (1, 0)
    }
}
