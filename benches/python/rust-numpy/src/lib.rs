//! The functions that are measured from Python, written with rust-numpy. It knows NumPy's arrays alone, and has no
//! capsules.

use std::hint::black_box;

use numpy::{PyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

/// A typed argument, borrowed and given back.
#[pyfunction]
fn noop(x: PyReadonlyArray2<'_, f32>) {
    black_box(x.len());
}

/// A new array.
#[pyfunction]
fn make(py: Python<'_>) -> Bound<'_, PyArray1<f32>> {
    PyArray1::from_vec(py, vec![1.0; 24])
}

/// The extension module.
#[pymodule]
mod bench_rust_numpy {
    #[pymodule_export]
    use super::{make, noop};
}
