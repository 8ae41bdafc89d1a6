//! Functions written with pyo3-dlpack: those that are measured, and those of the comparison.

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
