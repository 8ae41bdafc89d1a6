//! Functions that are measured and compared, written with dlpk.

use std::hint::black_box;

use dlpk::pyo3::PyDLPack;
use dlpk::{DLPackTensor, DLPackTensorRef};
use ndarray::{ArrayView1, ArrayView2, ArrayViewMut3};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCapsule};

// begin: shared
/// Returns the capsule of an object: versioned if the producer supports that.
fn capsule<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyCapsule>> {
    let py = x.py();
    let version = [("max_version", (1, 0))].into_py_dict(py)?;
    let capsule = match x.call_method("__dlpack__", (), Some(&version)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => x.call_method0("__dlpack__")?,
        capsule => capsule?,
    };
    Ok(capsule.cast_into()?)
}

/// dlpk passes negative strides to ndarray, whose views must not be made from them.
fn check_strides(strides: Option<&[i64]>) -> PyResult<()> {
    match strides {
        Some(strides) if strides.iter().any(|stride| *stride < 0) => {
            Err(PyValueError::new_err("a stride is negative"))
        }
        _ => Ok(()),
    }
}
// end: shared

// begin: mean
/// The mean of a float32 matrix.
#[pyfunction]
fn mean(x: &Bound<'_, PyAny>) -> PyResult<f32> {
    let capsule = capsule(x)?;
    // The tensor is valid only while its capsule lives, so this keeps the capsule.
    let tensor = DLPackTensorRef::try_from(capsule.clone())?;
    check_strides(tensor.strides())?;
    Ok(ArrayView2::<f32>::try_from(tensor)?.mean().unwrap_or(f32::NAN))
}
// end: mean

// begin: invert
/// Inverts an image in place.
#[pyfunction]
fn invert(image: &Bound<'_, PyAny>) -> PyResult<()> {
    let mut tensor = DLPackTensor::try_from(&capsule(image)?)?;
    if tensor.is_read_only() {
        return Err(PyValueError::new_err("the picture is read-only"));
    }
    check_strides(tensor.strides())?;
    // dlpk returns a mutable view even if two positions share a byte.
    let strides = tensor.strides().unwrap_or_default();
    let mut axes: Vec<_> = tensor.shape().iter().zip(strides).collect();
    axes.retain(|(extent, _)| **extent > 1);
    axes.sort_by_key(|(_, stride)| **stride);
    let mut free = 1;
    for (extent, stride) in axes {
        if *stride < free {
            return Err(PyValueError::new_err("the picture overlaps itself"));
        }
        free += (extent - 1) * stride;
    }
    let mut pixels = ArrayViewMut3::<u8>::try_from(tensor.as_mut())?;
    if pixels.dim().2 != 3 {
        return Err(PyTypeError::new_err("the picture has not three channels"));
    }
    pixels.mapv_inplace(|value| 255 - value);
    Ok(())
}
// end: invert

// begin: twice
/// Twice a vector.
#[pyfunction]
fn twice(x: &Bound<'_, PyAny>) -> PyResult<PyDLPack> {
    let capsule = capsule(x)?;
    let tensor = DLPackTensorRef::try_from(capsule.clone())?;
    check_strides(tensor.strides())?;
    PyDLPack::try_from(DLPackTensor::try_from(&ArrayView1::<f32>::try_from(tensor)? * 2.0)?)
}
// end: twice

/// A float32 matrix, as an ndarray view.
#[pyfunction]
fn noop(x: &Bound<'_, PyAny>) -> PyResult<()> {
    // The tensor is valid only while its capsule lives, so this keeps the capsule.
    let capsule = capsule(x)?;
    let tensor = DLPackTensorRef::try_from(capsule.clone())?;
    black_box(ArrayView2::<f32>::try_from(tensor)?.len());
    Ok(())
}

fn tensor() -> PyResult<PyDLPack> {
    let tensor = DLPackTensor::try_from(vec![1.0_f32; 24]);
    PyDLPack::try_from(tensor.map_err(|error| PyTypeError::new_err(error.to_string()))?)
}

/// A new tensor as a capsule.
#[pyfunction]
fn new<'py>(py: Python<'py>) -> PyResult<Py<PyCapsule>> {
    tensor()?.__dlpack__(py, None, None, None, None)
}

/// A new tensor as an object that exports it, once.
#[pyfunction]
fn make() -> PyResult<PyDLPack> {
    tensor()
}

/// Another library's tensor, imported and exported again.
#[pyfunction]
fn hand_on(x: &Bound<'_, PyAny>) -> PyResult<PyDLPack> {
    PyDLPack::try_from(DLPackTensor::try_from(&capsule(x)?)?)
}

/// The extension module.
#[pymodule]
mod with_dlpk {
    #[pymodule_export]
    use super::{hand_on, invert, make, mean, new, noop, twice};
}
