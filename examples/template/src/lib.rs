//! The smallest extension: any framework's float32 matrix in, a new vector out.

use dlbridge_pyo3::{PyReadonlyTensor, PyTensor};
use pyo3::prelude::*;

/// The sum of each row.
#[pyfunction]
fn row_sums(x: PyReadonlyTensor<'_, f32, 2>) -> PyTensor {
    let ([rows, columns], view) = (x.dims(), x.view());
    let sums = (0..rows).map(|i| (0..columns).map(|j| view[[i, j]]).sum());
    PyTensor::from(sums.collect::<Vec<f32>>())
}

/// The extension module.
#[pymodule(gil_used = true)]
mod template {
    #[pymodule_export]
    use super::row_sums;
}
