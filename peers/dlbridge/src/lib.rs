//! Functions written with dlbridge, for the benchmarks and for the comparison.

mod compared;
mod measured;

/// The extension module.
#[pyo3::pymodule]
mod with_dlbridge {
    #[pymodule_export]
    use crate::compared::{invert, mean, twice};
    #[pymodule_export]
    use crate::measured::{
        bare, cast, exact, hand_on, integers, make, matrix, new, new_numpy, new_torch, noop,
        noop_dict, noop_entries, noop_list, noop_tree, open_safetensors, refuses, tries,
        twelve_numpy, typed_torch, vector, write_list,
    };
}
