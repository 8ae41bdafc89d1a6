//! Functions that are measured and compared, written with rust-numpy. It supports only NumPy arrays, without DLPack
//! capsules.

use std::collections::HashMap;
use std::hint::black_box;

use numpy::{
    AllowTypeChange, IntoPyArray, PyArray1, PyArrayLike1, PyArrayLike2, PyReadonlyArray1,
    PyReadonlyArray2, PyReadwriteArray1, PyReadwriteArray2, PyReadwriteArray3,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

// begin: mean
/// The mean of a float32 matrix.
#[pyfunction]
fn mean(x: PyReadonlyArray2<'_, f32>) -> PyResult<f32> {
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
fn invert(mut image: PyReadwriteArray3<'_, u8>) -> PyResult<()> {
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
fn twice<'py>(x: PyReadonlyArray1<'py, f32>) -> PyResult<Bound<'py, PyArray1<f32>>> {
    if !x.is_aligned() {
        return Err(PyTypeError::new_err("the vector is not aligned"));
    }
    Ok((&x.as_array() * 2.0).into_pyarray(x.py()))
}
// end: twice

/// Calls a function while rust-numpy borrows an array for reading.
#[pyfunction]
fn hold_readonly<'py>(
    array: PyReadonlyArray1<'py, f64>,
    callback: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let answer = callback.call0();
    drop(array);
    answer
}

/// Calls a function while rust-numpy borrows an array for writing.
#[pyfunction]
fn hold_readwrite<'py>(
    array: PyReadwriteArray1<'py, f64>,
    callback: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let answer = callback.call0();
    drop(array);
    answer
}

include!("../../no_ops.rs");

no_ops! {
    /// A typed argument, borrowed and released.
    noop: PyReadonlyArray2<'_, f32>;
    /// A vector, or a list that becomes one.
    vector: PyArrayLike1<'_, f64>;
    /// A matrix, or a list of lists that becomes one.
    matrix: PyArrayLike2<'_, f64>;
    /// A vector of integers, or a list that becomes one.
    integers: PyArrayLike1<'_, i64>;
    /// A matrix of another dtype, which is converted.
    cast: PyArrayLike2<'_, f64, AllowTypeChange>;
    /// A vector of one dtype, and nothing else.
    exact: PyReadonlyArray1<'_, f64>;
    /// A list of matrices, all borrowed at once.
    noop_list: Vec<PyReadonlyArray2<'_, f32>>;
    /// A list of matrices to write, all borrowed at once.
    write_list: Vec<PyReadwriteArray2<'_, f32>>;
    /// A dict of matrices, all borrowed at once.
    noop_dict: HashMap<String, PyReadonlyArray2<'_, f32>>;
}

type Array<'py> = Bound<'py, PyArray1<f32>>;

/// A new NumPy array.
#[pyfunction]
fn new_numpy(py: Python<'_>) -> Array<'_> {
    vec![1.0_f32; 24].into_pyarray(py)
}

type Three<'py> = (Array<'py>, Array<'py>, Array<'py>);

/// Twelve new NumPy arrays.
#[pyfunction]
fn twelve_numpy(py: Python<'_>) -> (Three<'_>, Three<'_>, Three<'_>, Three<'_>) {
    let three = || (new_numpy(py), new_numpy(py), new_numpy(py));
    (three(), three(), three(), three())
}

/// Returns true if an object does not fit; drops the error.
#[pyfunction]
fn refuses(x: &Bound<'_, PyAny>) -> bool {
    x.extract::<PyReadonlyArray1<'_, f64>>().is_err()
}

/// The extension module.
#[pymodule]
mod with_rust_numpy {
    #[pymodule_export]
    use super::{
        cast, exact, hold_readonly, hold_readwrite, integers, invert, matrix, mean, new_numpy,
        noop, noop_dict, noop_list, refuses, twelve_numpy, twice, vector, write_list,
    };
}
