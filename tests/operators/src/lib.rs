//! Operators for the tests of dlbridge-ops, one for each kind of parameter and result.
#![forbid(unsafe_code)]

mod cuda;
mod elementwise;
mod errors;
mod gradients;
mod jax;
mod outputs;
mod signatures;

use cuda::{cuda_found, cuda_relu_, cuda_scale};
use elementwise::{
    address, negative, softclip, softclip_vjp, softclip_vjp_vjp, strided_sum, strided_sum_vjp,
    twice,
};
use errors::{alive, fails, meets, nested, panics};
use gradients::{mixed, mixed_vjp, multiply, multiply_vjp, multiply_vjp_vjp};
use jax::{inverted, mark_, pick, pick_vjp, shapeless, stretch, stretch_vjp};
use outputs::{
    accumulated, accumulated_vector, add_, divmod, halves, min_max, min_max_vjp, nonzero, outer,
    outer_vjp, planar, ragged, relu_, takes_none, unallocated, unwritten,
};
use signatures::{
    affine, biased, biased_vjp, described, exponential, exponential_vjp, late, parted, scaled,
    texts,
};

dlbridge_ops::library!("operators":
    softclip, softclip_vjp, softclip_vjp_vjp, twice, negative, address, strided_sum, strided_sum_vjp,
    affine, scaled, described,
    min_max, min_max_vjp, outer, outer_vjp, divmod, halves, nonzero, ragged, unallocated, accumulated, accumulated_vector,
    planar, unwritten, relu_, add_, takes_none,
    cuda_scale, cuda_relu_, cuda_found,
    fails, panics, alive, nested, meets,
    stretch, stretch_vjp, pick, pick_vjp, inverted, mark_, shapeless,
    multiply, multiply_vjp, multiply_vjp_vjp, mixed, mixed_vjp,
    biased, biased_vjp, late, exponential, exponential_vjp, texts, parted,
);

/// The extension module.
#[cfg(feature = "python")]
#[pyo3::pymodule(gil_used = true)]
fn operators(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
    dlbridge_ops::python::add(module, &LIBRARY)
}
