//! Python's view of a `TensorObject`: its methods, its elements and its text.

pub(crate) mod dtype;
mod elements;
mod index;
mod methods;
mod text;
