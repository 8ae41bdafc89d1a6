//! The functions that are measured from Python, written with dlbridge-pyo3.

use std::collections::BTreeMap;
use std::fs::File;
use std::hint::black_box;
use std::path::PathBuf;

use dlbridge::Tensor;
use dlbridge_pyo3::{AllowCast, AllowSequence, Numpy, PyReadonlyTensor, PyTensor, Torch, Wanted};
use memmap2::Mmap;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// A typed argument: imported, checked, borrowed in the registry, and given back.
#[pyfunction]
fn noop(x: PyReadonlyTensor<'_, f32, 2>) {
    black_box(x.len());
}

/// A vector, or a list that becomes one.
#[pyfunction]
fn vector(x: PyReadonlyTensor<'_, f64, 1, AllowSequence>) {
    black_box(x.len());
}

/// A matrix, or a list of lists that becomes one.
#[pyfunction]
fn matrix(x: PyReadonlyTensor<'_, f64, 2, AllowSequence>) {
    black_box(x.len());
}

/// A vector of integers, or a list that becomes one.
#[pyfunction]
fn integers(x: PyReadonlyTensor<'_, i64, 1, AllowSequence>) {
    black_box(x.len());
}

/// A matrix of another dtype, which is converted.
#[pyfunction]
fn cast(x: PyReadonlyTensor<'_, f64, 2, AllowCast>) {
    black_box(x.len());
}

/// A vector of one dtype, and nothing else.
#[pyfunction]
fn exact(x: PyReadonlyTensor<'_, f64, 1>) {
    black_box(x.len());
}

/// True if an object does not fit; the error is dropped.
#[pyfunction]
fn refuses(x: &Bound<'_, PyAny>) -> bool {
    x.extract::<PyReadonlyTensor<'_, f64, 1>>().is_err()
}

/// True if an object does not fit; no error is made.
#[pyfunction]
fn tries(x: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(PyReadonlyTensor::<f64, 1>::try_extract(x)?.is_none())
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

/// A new tensor as one of PyTorch.
#[pyfunction]
fn new_torch(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    PyTensor::from(vec![1.0_f32; 24]).into_library(py, "torch")
}

/// The same by the type of the result.
#[pyfunction]
fn typed_torch() -> Torch<f32, 1> {
    vec![1.0_f32; 24].into()
}

/// A new array of NumPy.
#[pyfunction]
fn new_numpy() -> Numpy<f32, 1> {
    vec![1.0_f32; 24].into()
}

type Three = (Numpy<f32, 1>, Numpy<f32, 1>, Numpy<f32, 1>);

/// Twelve new arrays of NumPy.
#[pyfunction]
fn twelve_numpy() -> (Three, Three, Three, Three) {
    let three = || (new_numpy(), new_numpy(), new_numpy());
    (three(), three(), three(), three())
}

/// Another library's tensor, taken and handed on.
#[pyfunction]
fn hand_on<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTensor>> {
    PyTensor::import(x, &Wanted::default())
}

/// The tensors of a safetensors file, which is mapped, and not read.
#[pyfunction]
fn open_safetensors(path: PathBuf) -> PyResult<BTreeMap<String, PyTensor>> {
    // SAFETY: the benchmark made the file, and nobody changes it.
    let map = unsafe { Mmap::map(&File::open(path)?)? };
    let tensors = dlbridge::safetensors::load(map);
    let tensors = tensors.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(tensors.into_iter().map(|(name, tensor)| (name, PyTensor::from(tensor))).collect())
}

/// The extension module.
#[pymodule]
mod bench_dlbridge {
    #[pymodule_export]
    use super::{
        bare, cast, exact, hand_on, integers, make, matrix, new, new_numpy, new_torch, noop,
        open_safetensors, refuses, tries, twelve_numpy, typed_torch, vector,
    };
}
