//! Functions written with dlpack-rs, for the benchmarks and for the comparison.

mod measured;

/// The extension module.
#[pyo3::pymodule]
mod with_dlpack_rs {
    #[pymodule_export]
    use crate::measured::{make, new, noop};
}
