//! The functions for the benchmarks from Python, written with dlpk.

use std::hint::black_box;

use dlpk::pyo3::PyDLPack;
use dlpk::{DLPackTensor, DLPackTensorRef};
use ndarray::ArrayView2;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCapsule};

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

/// A float32 matrix, as an ndarray view.
#[pyfunction]
pub(crate) fn noop(x: &Bound<'_, PyAny>) -> PyResult<()> {
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
pub(crate) fn new<'py>(py: Python<'py>) -> PyResult<Py<PyCapsule>> {
    tensor()?.__dlpack__(py, None, None, None, None)
}

/// A new tensor as an object that exports it, once.
#[pyfunction]
pub(crate) fn make() -> PyResult<PyDLPack> {
    tensor()
}

/// Another library's tensor, imported and exported again.
#[pyfunction]
pub(crate) fn hand_on(x: &Bound<'_, PyAny>) -> PyResult<PyDLPack> {
    PyDLPack::try_from(DLPackTensor::try_from(&capsule(x)?)?)
}
