//! Results made with the core crate: `?` converts its errors, and tensors come from several sources.

use bytes::Bytes;
use dlbridge_files::TensorFile;
use dlbridge_pyo3::PyTensor;
use dlbridge_pyo3::dlbridge::{DataType, Tensor};
use ndarray::Array3;
use pyo3::prelude::*;

#[pyfunction]
pub(crate) fn matrix(elements: Vec<f32>, rows: usize, columns: usize) -> PyResult<PyTensor> {
    let matrix = Tensor::from_parts(elements, [rows, columns])?;
    Ok(PyTensor::from(matrix))
}

#[pyfunction]
pub(crate) fn zeros(n: usize) -> PyResult<PyTensor> {
    Ok(PyTensor::from(Tensor::zeros::<f64>([n])?))
}

#[pyfunction]
pub(crate) fn cube(n: usize) -> PyTensor {
    PyTensor::from(Array3::from_shape_fn((n, n, n), |(i, j, k)| (i + j + k) as f64))
}

/// A picture of `rows` rows, as a store of objects returns its bytes: writable if `bytes` is the only handle.
#[pyfunction]
pub(crate) fn fetched(rows: usize, shared: bool) -> PyResult<PyTensor> {
    let bytes = Bytes::from(vec![7_u8; rows * 4]);
    let other = shared.then(|| bytes.clone());
    let tensor = match bytes.try_into_mut() {
        Ok(only) => Tensor::from_bytes(only, DataType::UINT8, [rows, 4], 0)?,
        Err(shared) => Tensor::from_bytes(shared, DataType::UINT8, [rows, 4], 0)?,
    };
    drop(other);
    Ok(PyTensor::from(tensor))
}

/// The names of the tensors in a safetensors file, all of which can be read.
#[pyfunction]
pub(crate) fn names_in_file(file: Vec<u8>) -> PyResult<Vec<String>> {
    let file = TensorFile::from_bytes(file)?;
    let name = |name: &String| Ok(file.tensor(name).map(|_| name.clone())?);
    file.tensors().keys().map(name).collect()
}
