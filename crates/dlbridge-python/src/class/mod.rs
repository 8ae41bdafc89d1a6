//! Python's view of [`PyTensor`](crate::PyTensor): its methods, its elements and its text.

pub(crate) mod dtype;
mod elements;
mod index;
mod methods;
mod text;
