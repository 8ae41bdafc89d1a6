//! The comparison's functions, written with dlbridge-pyo3.

use dlbridge_pyo3::{PyReadonlyTensor, PyReadwriteTensor, PyTensor, dims};
use pyo3::prelude::*;

// begin: mean
/// The mean of a float32 matrix.
#[pyfunction]
pub(crate) fn mean(x: PyReadonlyTensor<'_, f32, 2>) -> f32 {
    x.iter().sum::<f32>() / x.len() as f32
}
// end: mean

// begin: invert
/// Inverts an image in place.
#[pyfunction]
pub(crate) fn invert(mut image: PyReadwriteTensor<'_, u8, 3, dims!(_, _, 3)>) {
    image.iter_mut().for_each(|value| *value = 255 - *value);
}
// end: invert

// begin: twice
/// Twice a vector.
#[pyfunction]
pub(crate) fn twice<'py>(x: PyReadonlyTensor<'py, f32, 1>) -> PyResult<Bound<'py, PyAny>> {
    let doubled: Vec<f32> = x.iter().map(|value| 2.0 * value).collect();
    PyTensor::from(doubled).into_like(x.object())
}
// end: twice
