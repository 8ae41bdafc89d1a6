//! NumPy, through its C API: its functions, and its arrays read in place.

pub(crate) mod api;
pub mod array;
pub(crate) mod geometry;
pub(crate) mod head;
mod object_head;
mod shared_object;
