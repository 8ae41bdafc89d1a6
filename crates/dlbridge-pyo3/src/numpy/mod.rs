//! NumPy, through its C API: its functions, its arrays read in place, and its numbers.

pub(crate) mod api;
pub(crate) mod array;
pub(crate) mod geometry;
pub(crate) mod head;
mod object_head;
pub(crate) mod scalar;
mod shared_object;
