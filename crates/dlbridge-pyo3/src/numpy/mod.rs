//! NumPy, by its C API: its functions, its arrays where they are, and its numbers.

pub(crate) mod api;
pub(crate) mod array;
pub(crate) mod scalar;
