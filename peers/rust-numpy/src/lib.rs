//! Functions written with rust-numpy, for the benchmarks and for the comparison.

mod compared;
mod measured;

/// The extension module.
#[pyo3::pymodule]
mod with_rust_numpy {
    #[pymodule_export]
    use crate::compared::{hold_readonly, hold_readwrite, invert, mean, twice};
    #[pymodule_export]
    use crate::measured::{
        cast, exact, integers, matrix, new_numpy, noop, noop_dict, noop_list, refuses,
        twelve_numpy, vector, write_list,
    };
}
