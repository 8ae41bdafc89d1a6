//! The functions that are measured from Python, written with dlbridge-pyo3.

use std::hint::black_box;

use dlbridge::Tensor;
use dlbridge_pyo3::{PyReadonlyTensor, PyTensor, Wanted};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// A typed argument: imported, checked, borrowed in the registry, and given back.
#[pyfunction]
fn noop(x: PyReadonlyTensor<'_, f32, 2>) {
    black_box(x.len());
}

/// The import alone, borrowed as anything is that came from Python: no type is asked for.
#[pyfunction]
fn bare(x: &Bound<'_, PyAny>) -> PyResult<()> {
    black_box(dlbridge_pyo3::import(x)?);
    Ok(())
}

/// A new tensor as a capsule.
#[pyfunction]
fn new(py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
    dlbridge_pyo3::into_capsule(py, Tensor::from(vec![1.0_f32; 24]))
}

/// A new tensor as an object that exports it.
#[pyfunction]
fn make() -> PyTensor {
    PyTensor::from(vec![1.0_f32; 24])
}

/// Another library's tensor, taken and handed on.
#[pyfunction]
fn hand_on<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTensor>> {
    PyTensor::import(x, &Wanted::default())
}

/// The extension module.
#[pymodule]
mod bench_dlbridge {
    #[pymodule_export]
    use super::{bare, hand_on, make, new, noop};
}
