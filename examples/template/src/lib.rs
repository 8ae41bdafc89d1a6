//! The smallest extension: one function accepts a matrix of any library and returns a NumPy array, the other returns a
//! matrix for any library.

use dlbridge_pyo3::dlbridge::Tensor;
use dlbridge_pyo3::{Numpy, PyReadonlyTensor, PyTensor};
use pyo3::prelude::*;

/// Returns the sum of each row, as a NumPy array.
#[pyfunction]
fn row_sums(x: PyReadonlyTensor<'_, f32, 2>) -> Numpy<f32, 1> {
    let ([rows, columns], view) = (x.dims(), x.view());
    let sums = (0..rows).map(|i| (0..columns).map(|j| view[(i, j)]).sum());
    sums.collect::<Vec<_>>().into()
}

/// Returns the values as a matrix, row by row. `?` raises dlbridge's error if they do not fit.
#[pyfunction]
fn matrix(values: Vec<f32>, rows: usize, columns: usize) -> PyResult<PyTensor> {
    Ok(Tensor::from_parts(values, [rows, columns])?.into())
}

/// The extension module.
#[pymodule(gil_used = true)]
mod template {
    #[pymodule_export]
    use super::{matrix, row_sums};
}
