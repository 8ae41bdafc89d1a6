//! The owning tensor. `raw` holds its block.

#[forbid(unsafe_code)]
mod export;
#[forbid(unsafe_code)]
mod methods;
pub(crate) mod raw;

pub use raw::{ArcTensor, Tensor};
