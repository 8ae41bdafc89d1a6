//! The functions for the benchmarks from Python, written with rust-numpy. It supports only NumPy arrays, without DLPack
//! capsules.

use std::collections::HashMap;
use std::hint::black_box;

use numpy::{
    AllowTypeChange, IntoPyArray, PyArray1, PyArrayLike1, PyArrayLike2, PyReadonlyArray1,
    PyReadonlyArray2, PyReadwriteArray2, PyUntypedArrayMethods,
};
use pyo3::prelude::*;

/// A typed argument, borrowed and released.
#[pyfunction]
pub(crate) fn noop(x: PyReadonlyArray2<'_, f32>) {
    black_box(x.len());
}

/// A list of matrices, all borrowed at once.
#[pyfunction]
pub(crate) fn noop_list(x: Vec<PyReadonlyArray2<'_, f32>>) {
    black_box(x.len());
}

/// A list of matrices to write, all borrowed at once.
#[pyfunction]
pub(crate) fn write_list(x: Vec<PyReadwriteArray2<'_, f32>>) {
    black_box(x.len());
}

/// A dict of matrices, all borrowed at once.
#[pyfunction]
pub(crate) fn noop_dict(x: HashMap<String, PyReadonlyArray2<'_, f32>>) {
    black_box(x.len());
}

pub(crate) type Array<'py> = Bound<'py, PyArray1<f32>>;

/// A new NumPy array.
#[pyfunction]
pub(crate) fn new_numpy(py: Python<'_>) -> Array<'_> {
    vec![1.0_f32; 24].into_pyarray(py)
}

pub(crate) type Three<'py> = (Array<'py>, Array<'py>, Array<'py>);

/// Twelve new NumPy arrays.
#[pyfunction]
pub(crate) fn twelve_numpy(py: Python<'_>) -> (Three<'_>, Three<'_>, Three<'_>, Three<'_>) {
    let three = || (new_numpy(py), new_numpy(py), new_numpy(py));
    (three(), three(), three(), three())
}

/// A vector, or a list that becomes one.
#[pyfunction]
pub(crate) fn vector(x: PyArrayLike1<'_, f64>) {
    black_box(x.len());
}

/// A matrix, or a list of lists that becomes one.
#[pyfunction]
pub(crate) fn matrix(x: PyArrayLike2<'_, f64>) {
    black_box(x.len());
}

/// A vector of integers, or a list that becomes one.
#[pyfunction]
pub(crate) fn integers(x: PyArrayLike1<'_, i64>) {
    black_box(x.len());
}

/// A matrix of another dtype, which is converted.
#[pyfunction]
pub(crate) fn cast(x: PyArrayLike2<'_, f64, AllowTypeChange>) {
    black_box(x.len());
}

/// A vector of one dtype, and nothing else.
#[pyfunction]
pub(crate) fn exact(x: PyReadonlyArray1<'_, f64>) {
    black_box(x.len());
}

/// Returns true if an object does not fit; drops the error.
#[pyfunction]
pub(crate) fn refuses(x: &Bound<'_, PyAny>) -> bool {
    x.extract::<PyReadonlyArray1<'_, f64>>().is_err()
}
