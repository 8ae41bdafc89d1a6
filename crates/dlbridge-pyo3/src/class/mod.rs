//! Python's view of [`PyTensor`](crate::PyTensor): its methods, its operators and its elements.

pub(crate) mod dtype;
mod elements;
mod index;
mod methods;
mod operators;
mod value;
