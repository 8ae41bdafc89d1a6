//! Python's view of a `TensorObject`: its methods, its elements and its text.

mod buffer_export;
mod dlpack_method;
pub(crate) mod dtype;
mod elements;
mod index;
mod methods;
mod text;
