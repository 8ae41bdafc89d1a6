//! Functions written with dlpk: those that are measured, and those of the comparison.

mod compared;
mod measured;

/// The extension module.
#[pyo3::pymodule]
mod with_dlpk {
    #[pymodule_export]
    use crate::compared::{invert, mean, twice};
    #[pymodule_export]
    use crate::measured::{hand_on, make, new, noop};
}
