//! Functions written with dlpark, for the benchmarks and for the comparison.

mod compared;
mod measured;

/// The extension module.
#[pyo3::pymodule]
mod with_dlpark {
    #[pymodule_export]
    use crate::compared::{invert, mean, twice};
    #[pymodule_export]
    use crate::measured::{hand_on, make, new, noop};
}
