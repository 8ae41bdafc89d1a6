//! NumPy's array interface, as an attribute and as a C struct, and CUDA's; import and export.

pub(crate) mod array_interface;
pub(crate) mod array_struct;
pub(crate) mod cuda_array_interface;
mod typestr;
