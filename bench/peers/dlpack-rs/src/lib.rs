//! Functions that are measured, written with dlpack-rs.

use std::hint::black_box;
use std::sync::Arc;

use dlpack_rs::ffi::{DLDataType, K_DL_CPU};
use dlpack_rs::pyo3_glue::{IntoDLPack, PyTensor};
use dlpack_rs::safe::{TensorInfo, cpu_device, dtype_f32};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// A float32 matrix; the function checks that, because the crate leaves the check to the author.
#[pyfunction]
fn noop(x: &Bound<'_, PyAny>) -> PyResult<()> {
    let tensor = PyTensor::from_pyany(x.py(), x)?;
    let parts = |dtype: DLDataType| (dtype.code, dtype.bits, dtype.lanes);
    if parts(tensor.dtype()) != parts(dtype_f32())
        || tensor.device().device_type != K_DL_CPU
        || tensor.ndim() != 2
        || !tensor.data_ptr().cast::<f32>().is_aligned()
    {
        return Err(PyTypeError::new_err("not a float32 matrix"));
    }
    black_box(tensor.shape());
    Ok(())
}

/// A new tensor as a capsule.
#[pyfunction]
fn new(py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
    make().into_capsule_versioned(py, 0)
}

/// A new tensor as an object that exports it.
#[pyfunction]
fn make() -> Vector {
    Vector(Arc::new(vec![1.0; 24]))
}

/// A vector that Python can export any number of times.
#[pyclass(frozen)]
struct Vector(Arc<Vec<f32>>);

impl IntoDLPack for Vector {
    fn tensor_info(&self) -> TensorInfo {
        let data = self.0.as_ptr().cast_mut().cast();
        TensorInfo::contiguous(data, cpu_device(), dtype_f32(), vec![self.0.len() as i64])
    }
}

#[pymethods]
impl Vector {
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    #[expect(unused_variables, reason = "memory of the CPU needs no stream")]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        if copy == Some(true) || dl_device.is_some_and(|device| device != (1, 0)) {
            return Err(PyBufferError::new_err("not without a copy"));
        }
        let vector = Vector(Arc::clone(&self.0));
        match max_version {
            Some((1.., _)) => vector.into_capsule_versioned(py, 0),
            _ => vector.into_capsule(py),
        }
    }

    fn __dlpack_device__(&self) -> (u32, i32) {
        (1, 0)
    }
}

/// The extension module.
#[pymodule]
mod with_dlpack_rs {
    #[pymodule_export]
    use super::{make, new, noop};
}
