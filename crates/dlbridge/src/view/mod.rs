//! Borrowed tensors whose elements are of a Rust type. `raw` and `iter` hold the memory.

#[forbid(unsafe_code)]
mod display;
mod iter;
#[forbid(unsafe_code)]
mod methods;
mod raw;

pub use iter::{Iter, IterMut};
pub use raw::{TensorView, TensorViewMut};
