//! The comparison's functions, written with rust-numpy.

use numpy::{
    IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray1,
    PyReadwriteArray3, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

// begin: mean
/// The mean of a float32 matrix.
#[pyfunction]
pub(crate) fn mean(x: PyReadonlyArray2<'_, f32>) -> PyResult<f32> {
    // `as_array` makes references without a check of their alignment.
    if !x.is_aligned() {
        return Err(PyTypeError::new_err("the matrix is not aligned"));
    }
    Ok(x.as_array().mean().unwrap_or(f32::NAN))
}
// end: mean

// begin: invert
/// Inverts an image in place.
#[pyfunction]
pub(crate) fn invert(mut image: PyReadwriteArray3<'_, u8>) -> PyResult<()> {
    if image.shape()[2] != 3 {
        return Err(PyTypeError::new_err("the picture has not three channels"));
    }
    // `as_array_mut` returns a mutable view even if two positions share a byte.
    let mut axes: Vec<_> = image.shape().iter().zip(image.strides()).collect();
    axes.retain(|(extent, _)| **extent > 1);
    axes.sort_by_key(|(_, stride)| stride.abs());
    let mut free = 1;
    for (extent, stride) in axes {
        if stride.unsigned_abs() < free {
            return Err(PyValueError::new_err("the picture overlaps itself"));
        }
        free += (extent - 1) * stride.unsigned_abs();
    }
    image.as_array_mut().mapv_inplace(|value| 255 - value);
    Ok(())
}
// end: invert

// begin: twice
/// Twice a vector.
#[pyfunction]
pub(crate) fn twice<'py>(x: PyReadonlyArray1<'py, f32>) -> PyResult<Bound<'py, PyArray1<f32>>> {
    if !x.is_aligned() {
        return Err(PyTypeError::new_err("the vector is not aligned"));
    }
    Ok((&x.as_array() * 2.0).into_pyarray(x.py()))
}
// end: twice

/// Calls a function while rust-numpy borrows an array for reading.
#[pyfunction]
pub(crate) fn hold_readonly<'py>(
    array: PyReadonlyArray1<'py, f64>,
    callback: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let answer = callback.call0();
    drop(array);
    answer
}

/// Calls a function while rust-numpy borrows an array for writing.
#[pyfunction]
pub(crate) fn hold_readwrite<'py>(
    array: PyReadwriteArray1<'py, f64>,
    callback: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let answer = callback.call0();
    drop(array);
    answer
}
