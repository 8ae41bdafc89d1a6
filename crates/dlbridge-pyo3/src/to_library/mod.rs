//! Tensors as objects of the framework that the caller works with.

mod framework;
pub(crate) mod like;
mod probe;
mod profiles;
mod report;
mod to;

pub(crate) use framework::Framework;
pub(crate) use like::{like_tensor, like_times};
pub(crate) use profiles::{JAX, NUMPY, TORCH};
pub(crate) use report::{canonical, consumers, fit, origin};
pub(crate) use to::{give, to, to_array, to_checked};
