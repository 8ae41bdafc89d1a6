//! Functions that are measured and compared, written with pyo3-dlpack.

use std::hint::black_box;
use std::sync::Arc;

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3_dlpack::{DLDataType, IntoDLPack, PyTensor, TensorInfo, cpu_device, dtype_f32, dtype_u8};

// begin: shared
/// Checks dtype, device and dimensions of a tensor; returns its address, extents and strides.
fn layout<T, const N: usize>(
    tensor: &PyTensor,
    dtype: DLDataType,
) -> PyResult<(*mut T, [isize; N], [isize; N])> {
    let data = tensor.data_ptr().cast::<T>();
    let shape: [i64; N] = match tensor.shape().try_into() {
        Ok(shape) if tensor.dtype() == dtype && tensor.device().is_cpu() => shape,
        _ => return Err(PyTypeError::new_err("wrong dtype, device or number of dimensions")),
    };
    if !data.is_aligned() {
        return Err(PyTypeError::new_err("the tensor is not aligned"));
    }
    let mut strides = [1; N];
    match tensor.strides() {
        Some(given) => strides.copy_from_slice(given),
        None => (1..N).rev().for_each(|axis| strides[axis - 1] = strides[axis] * shape[axis]),
    }
    Ok((data, shape.map(|extent| extent as isize), strides.map(|stride| stride as isize)))
}
// end: shared

// begin: mean
/// The mean of a float32 matrix.
#[pyfunction]
fn mean(x: &Bound<'_, PyAny>) -> PyResult<f32> {
    let tensor = PyTensor::from_pyany(x.py(), x)?;
    let (data, [rows, columns], [down, right]) = layout::<f32, 2>(&tensor, dtype_f32())?;
    let mut sum = 0.0;
    for i in 0..rows {
        for j in 0..columns {
            // SAFETY: the producer guarantees an element at this place as long as the tensor lives.
            sum += unsafe { *data.offset(i * down + j * right) };
        }
    }
    Ok(sum / (rows * columns) as f32)
}
// end: mean

// begin: invert
/// Inverts an image in place.
#[pyfunction]
fn invert(image: &Bound<'_, PyAny>) -> PyResult<()> {
    let tensor = PyTensor::from_pyany(image.py(), image)?;
    let (data, extents, strides) = layout::<u8, 3>(&tensor, dtype_u8())?;
    if tensor.is_read_only() || extents[2] != 3 {
        return Err(PyTypeError::new_err("read-only, or not of three channels"));
    }
    for i in 0..extents[0] {
        for j in 0..extents[1] {
            for k in 0..3 {
                // SAFETY: as in `mean`, and the memory is not read-only.
                unsafe {
                    let value = data.offset(i * strides[0] + j * strides[1] + k * strides[2]);
                    *value = 255 - *value;
                }
            }
        }
    }
    Ok(())
}
// end: invert

// begin: twice
/// Twice a vector.
#[pyfunction]
fn twice(x: &Bound<'_, PyAny>) -> PyResult<Vector> {
    let tensor = PyTensor::from_pyany(x.py(), x)?;
    let (data, [extent], [stride]) = layout::<f32, 1>(&tensor, dtype_f32())?;
    // SAFETY: as in `mean`.
    let doubled = (0..extent).map(|i| 2.0 * unsafe { *data.offset(i * stride) });
    Ok(Vector(Arc::new(doubled.collect())))
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
// end: twice

/// A float32 matrix; the function checks that, because the crate leaves the check to the author.
#[pyfunction]
fn noop(x: &Bound<'_, PyAny>) -> PyResult<()> {
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
fn new(py: Python<'_>) -> PyResult<Py<PyAny>> {
    make().into_dlpack(py)
}

/// A new tensor as an object that exports it.
#[pyfunction]
fn make() -> Vector {
    Vector(Arc::new(vec![1.0; 24]))
}

/// The extension module.
#[pymodule]
mod with_pyo3_dlpack {
    #[pymodule_export]
    use super::{invert, make, mean, new, noop, twice};
}
