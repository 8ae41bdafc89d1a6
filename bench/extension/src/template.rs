//! The functions of `examples/template`, written with rust-numpy: they accept and return arrays of NumPy alone.

use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Returns the sum of each row.
#[pyfunction]
fn row_sums<'py>(py: Python<'py>, x: PyReadonlyArray2<'py, f32>) -> Bound<'py, PyArray1<f32>> {
    let view = x.as_array();
    let (rows, columns) = view.dim();
    let sums = (0..rows).map(|i| (0..columns).map(|j| view[(i, j)]).sum());
    sums.collect::<Vec<_>>().into_pyarray(py)
}

/// Returns the values as a matrix, row by row.
#[pyfunction]
fn matrix(
    py: Python<'_>,
    values: Vec<f32>,
    rows: usize,
    columns: usize,
) -> PyResult<Bound<'_, PyArray2<f32>>> {
    let matrix = Array2::from_shape_vec((rows, columns), values);
    Ok(matrix.map_err(|error| PyValueError::new_err(error.to_string()))?.into_pyarray(py))
}

/// The extension module.
#[pymodule(gil_used = true)]
mod template {
    #[pymodule_export]
    use super::{matrix, row_sums};
}
