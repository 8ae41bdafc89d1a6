//! Operators in Rust for PyTorch, JAX, TVM and NumPy: one file for each.
#![forbid(unsafe_code)]

mod distances;
mod mish;
mod quantise;
mod segment_sum;
mod spectrum;
mod suppression;

use pyo3::prelude::*;

dlbridge_ops::library!("rust_operators":
    mish::mish, mish::mish_vjp, mish::mish_vjp_vjp,
    segment_sum::segment_sum, segment_sum::segment_sum_vjp,
    distances::distances, distances::distances_vjp,
    quantise::quantise, quantise::dequantise, quantise::dequantise_vjp,
    quantise::fake_quantise, quantise::fake_quantise_vjp,
    spectrum::power_spectrum, spectrum::power_spectrum_vjp,
    suppression::non_maximum_suppression,
);

/// The extension module.
#[pymodule(gil_used = true)]
fn rust_operators(module: &Bound<'_, PyModule>) -> PyResult<()> {
    dlbridge_ops::python::add(module, &LIBRARY)
}
