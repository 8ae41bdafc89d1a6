//! Borrowed tensors of any dtype. `raw` holds the memory.

#[forbid(unsafe_code)]
mod methods;
mod raw;

pub use raw::{DLTensorRef, TensorRef, TensorRefMut};
