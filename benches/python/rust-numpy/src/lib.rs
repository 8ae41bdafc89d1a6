//! The functions that are measured from Python, written with rust-numpy. It knows NumPy's arrays alone, and has no
//! capsules.

use std::hint::black_box;

use numpy::{PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

/// A typed argument, borrowed and given back.
#[pyfunction]
fn noop(x: PyReadonlyArray2<'_, f32>) {
    black_box(x.len());
}

/// The extension module.
#[pymodule]
mod bench_rust_numpy {
    #[pymodule_export]
    use super::noop;
}
