//! NumPy, through its C API: its functions, and its arrays read in place.

pub(crate) mod api;
pub mod array;
pub(crate) mod head;
