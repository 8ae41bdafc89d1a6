//! The smallest wheel: accepts arguments of NumPy and of all libraries that support DLPack, and returns NumPy arrays.

use dlbridge_pyo3::{Numpy, PyReadonlyTensor, PyReadwriteTensor};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Returns the sum of a vector.
#[pyfunction]
fn sum(x: PyReadonlyTensor<'_, f64, 1>) -> f64 {
    x.iter().sum()
}

/// Returns a multiple of a vector, as a NumPy array.
#[pyfunction]
fn scale(x: PyReadonlyTensor<'_, f64, 1>, by: f64) -> Numpy<f64, 1> {
    x.iter().map(|value| value * by).collect::<Vec<_>>().into()
}

/// Multiplies the elements of a vector in place.
#[pyfunction]
fn scale_in_place(mut x: PyReadwriteTensor<'_, f64, 1>, by: f64) {
    x.iter_mut().for_each(|value| *value *= by);
}

/// Returns the sum of a vector, or a number unchanged.
#[pyfunction]
fn sum_or_number(x: &Bound<'_, PyAny>) -> PyResult<f64> {
    match PyReadonlyTensor::<f64, 1>::try_extract(x)? {
        Some(x) => Ok(x.iter().sum()),
        None => x.extract(),
    }
}

/// Returns the same memory as a NumPy array.
#[pyfunction]
fn as_numpy(x: &Bound<'_, PyAny>) -> PyResult<Numpy> {
    Ok(Numpy::try_from(dlbridge_pyo3::import(x)?)?)
}

/// Returns the same memory as a capsule for `__dlpack__`.
#[pyfunction]
fn as_capsule<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyCapsule>> {
    dlbridge_pyo3::into_capsule(x.py(), dlbridge_pyo3::import(x)?)
}

/// The extension module.
#[pymodule(gil_used = true)]
mod small_wheel {
    #[pymodule_export]
    use super::{as_capsule, as_numpy, scale, scale_in_place, sum, sum_or_number};
}
