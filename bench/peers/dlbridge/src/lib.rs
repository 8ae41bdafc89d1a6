//! Functions that are measured and compared, written with dlbridge.

use std::collections::HashMap;
use std::hint::black_box;

use dlbridge::Tensor;
use dlbridge_pyo3::{
    AllowCast, AllowSequence, Each, Entries, ImportOptions, Like, Numpy, PyReadonlyTensor,
    PyReadwriteTensor, PyTensor, Torch, dims,
};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

// begin: mean
/// The mean of a float32 matrix.
#[pyfunction]
fn mean(x: PyReadonlyTensor<'_, f32, 2>) -> f32 {
    x.iter().sum::<f32>() / x.len() as f32
}
// end: mean

// begin: invert
/// Inverts an image in place.
#[pyfunction]
fn invert(mut image: PyReadwriteTensor<'_, u8, 3, dims!(_, _, 3)>) {
    image.iter_mut().for_each(|value| *value = 255 - *value);
}
// end: invert

// begin: twice
/// Twice a vector.
#[pyfunction]
fn twice<'py>(x: PyReadonlyTensor<'py, f32, 1>) -> Like<'py> {
    x.like(x.iter().map(|value| 2.0 * value).collect::<Vec<_>>())
}
// end: twice

include!("../../no_ops.rs");

no_ops! {
    /// A typed argument: imported, checked, borrowed in the registry, and released.
    noop: PyReadonlyTensor<'_, f32, 2>;
    /// A vector, or a list that becomes one.
    vector: PyReadonlyTensor<'_, f64, 1, AllowSequence>;
    /// A matrix, or a list of lists that becomes one.
    matrix: PyReadonlyTensor<'_, f64, 2, AllowSequence>;
    /// A vector of integers, or a list that becomes one.
    integers: PyReadonlyTensor<'_, i64, 1, AllowSequence>;
    /// A matrix of another dtype, which is converted.
    cast: PyReadonlyTensor<'_, f64, 2, AllowCast>;
    /// A vector of one dtype, and nothing else.
    exact: PyReadonlyTensor<'_, f64, 1>;
    /// A list of matrices, all borrowed at once.
    noop_list: Each<Vec<PyReadonlyTensor<'_, f32, 2>>>;
    /// A list of matrices to write, all borrowed at once.
    write_list: Each<Vec<PyReadwriteTensor<'_, f32, 2>>>;
    /// A dict of matrices, all borrowed at once.
    noop_dict: Each<HashMap<String, PyReadonlyTensor<'_, f32, 2>>>;
}

/// A dict of matrices in its order, all borrowed at once.
#[pyfunction]
fn noop_entries(x: Each<Entries<PyReadonlyTensor<'_, f32, 2>>>) {
    black_box(x.0.0.len());
}

/// Returns true if an object does not fit; drops the error.
#[pyfunction]
fn refuses(x: &Bound<'_, PyAny>) -> bool {
    x.extract::<PyReadonlyTensor<'_, f64, 1>>().is_err()
}

/// Returns true if an object does not fit, without making an error.
#[pyfunction]
fn tries(x: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(PyReadonlyTensor::<f64, 1>::try_extract(x)?.is_none())
}

/// The import alone, borrowed like any import from Python, without a required type.
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

/// A new tensor as a PyTorch tensor.
#[pyfunction]
fn new_torch(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    PyTensor::from(vec![1.0_f32; 24]).into_library(py, "torch")
}

/// A new tensor as a PyTorch tensor, by the type of the result.
#[pyfunction]
fn typed_torch() -> Torch<f32, 1> {
    vec![1.0_f32; 24].into()
}

/// A new NumPy array.
#[pyfunction]
fn new_numpy() -> Numpy<f32, 1> {
    vec![1.0_f32; 24].into()
}

type Three = (Numpy<f32, 1>, Numpy<f32, 1>, Numpy<f32, 1>);

/// Twelve new NumPy arrays.
#[pyfunction]
fn twelve_numpy() -> (Three, Three, Three, Three) {
    let three = || (new_numpy(), new_numpy(), new_numpy());
    (three(), three(), three(), three())
}

/// Another library's tensor, imported and exported again.
#[pyfunction]
fn hand_on(x: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
    PyTensor::import(x, &ImportOptions::default())
}

/// The extension module.
#[pymodule]
mod with_dlbridge {
    #[pymodule_export]
    use super::{
        bare, cast, exact, hand_on, integers, invert, make, matrix, mean, new, new_numpy,
        new_torch, noop, noop_dict, noop_entries, noop_list, refuses, tries, twelve_numpy, twice,
        typed_torch, vector, write_list,
    };
}
