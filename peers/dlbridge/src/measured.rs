//! The functions for the benchmarks from Python, written with dlbridge-pyo3.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hint::black_box;
use std::path::PathBuf;

use dlbridge::Tensor;
use dlbridge_pyo3::{
    AllowCast, AllowSequence, Each, Entries, ImportOptions, Numpy, PyReadonlyTensor,
    PyReadwriteTensor, PyTensor, Torch, Tree,
};
use memmap2::Mmap;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// A typed argument: imported, checked, borrowed in the registry, and released.
#[pyfunction]
pub(crate) fn noop(x: PyReadonlyTensor<'_, f32, 2>) {
    black_box(x.len());
}

/// A vector, or a list that becomes one.
#[pyfunction]
pub(crate) fn vector(x: PyReadonlyTensor<'_, f64, 1, AllowSequence>) {
    black_box(x.len());
}

/// A matrix, or a list of lists that becomes one.
#[pyfunction]
pub(crate) fn matrix(x: PyReadonlyTensor<'_, f64, 2, AllowSequence>) {
    black_box(x.len());
}

/// A vector of integers, or a list that becomes one.
#[pyfunction]
pub(crate) fn integers(x: PyReadonlyTensor<'_, i64, 1, AllowSequence>) {
    black_box(x.len());
}

/// A matrix of another dtype, which is converted.
#[pyfunction]
pub(crate) fn cast(x: PyReadonlyTensor<'_, f64, 2, AllowCast>) {
    black_box(x.len());
}

/// A vector of one dtype, and nothing else.
#[pyfunction]
pub(crate) fn exact(x: PyReadonlyTensor<'_, f64, 1>) {
    black_box(x.len());
}

/// A list of matrices, all borrowed at once.
#[pyfunction]
pub(crate) fn noop_list(x: Each<Vec<PyReadonlyTensor<'_, f32, 2>>>) {
    black_box(x.len());
}

/// A list of matrices to write, all borrowed at once.
#[pyfunction]
pub(crate) fn write_list(x: Each<Vec<PyReadwriteTensor<'_, f32, 2>>>) {
    black_box(x.len());
}

/// A dict of matrices, all borrowed at once.
#[pyfunction]
pub(crate) fn noop_dict(x: Each<HashMap<String, PyReadonlyTensor<'_, f32, 2>>>) {
    black_box(x.len());
}

/// A dict of matrices in its order, all borrowed at once.
#[pyfunction]
pub(crate) fn noop_entries(x: Each<Entries<PyReadonlyTensor<'_, f32, 2>>>) {
    black_box(x.0.0.len());
}

/// A tree of matrices, all borrowed at once.
#[pyfunction]
pub(crate) fn noop_tree(x: Each<Tree<PyReadonlyTensor<'_, f32, 2>>>) {
    black_box(x.leaves().len());
}

/// Returns true if an object does not fit; drops the error.
#[pyfunction]
pub(crate) fn refuses(x: &Bound<'_, PyAny>) -> bool {
    x.extract::<PyReadonlyTensor<'_, f64, 1>>().is_err()
}

/// Returns true if an object does not fit, without making an error.
#[pyfunction]
pub(crate) fn tries(x: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(PyReadonlyTensor::<f64, 1>::try_extract(x)?.is_none())
}

/// The import alone, borrowed like any import from Python, without a required type.
#[pyfunction]
pub(crate) fn bare(x: &Bound<'_, PyAny>) -> PyResult<()> {
    black_box(dlbridge_pyo3::import(x)?);
    Ok(())
}

/// A new tensor as a capsule.
#[pyfunction]
pub(crate) fn new(py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
    dlbridge_pyo3::into_capsule(py, Tensor::from(vec![1.0_f32; 24]))
}

/// A new tensor as an object that exports it.
#[pyfunction]
pub(crate) fn make() -> PyTensor {
    PyTensor::from(vec![1.0_f32; 24])
}

/// A new tensor as a PyTorch tensor.
#[pyfunction]
pub(crate) fn new_torch(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    PyTensor::from(vec![1.0_f32; 24]).into_library(py, "torch")
}

/// A new tensor as a PyTorch tensor, by the type of the result.
#[pyfunction]
pub(crate) fn typed_torch() -> Torch<f32, 1> {
    vec![1.0_f32; 24].into()
}

/// A new NumPy array.
#[pyfunction]
pub(crate) fn new_numpy() -> Numpy<f32, 1> {
    vec![1.0_f32; 24].into()
}

pub(crate) type Three = (Numpy<f32, 1>, Numpy<f32, 1>, Numpy<f32, 1>);

/// Twelve new NumPy arrays.
#[pyfunction]
pub(crate) fn twelve_numpy() -> (Three, Three, Three, Three) {
    let three = || (new_numpy(), new_numpy(), new_numpy());
    (three(), three(), three(), three())
}

/// Another library's tensor, imported and exported again.
#[pyfunction]
pub(crate) fn hand_on<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTensor>> {
    PyTensor::import(x, &ImportOptions::default())
}

/// The tensors of a safetensors file, which is mapped and not read.
#[pyfunction]
pub(crate) fn open_safetensors(path: PathBuf) -> PyResult<BTreeMap<String, PyTensor>> {
    // SAFETY: the benchmark made the file, and no other code changes it.
    let map = unsafe { Mmap::map(&File::open(path)?)? };
    let tensors = dlbridge::safetensors::load(map);
    let tensors = tensors.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(tensors.into_iter().map(|(name, tensor)| (name, PyTensor::from(tensor))).collect())
}
