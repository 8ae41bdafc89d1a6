//! Functions written with pyo3-dlpack, for the benchmarks and for the comparison.

mod compared;
mod measured;

/// The extension module.
#[pyo3::pymodule]
mod with_pyo3_dlpack {
    #[pymodule_export]
    use crate::compared::{invert, mean, twice};
    #[pymodule_export]
    use crate::measured::{make, new, noop};
}
