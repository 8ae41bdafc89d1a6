//! Tensors as objects of the framework that the caller works with.

mod framework;
mod likeness;
mod probe;
mod profiles;
mod report;
mod to;

pub(crate) use framework::Framework;
pub(crate) use likeness::{like, like_result, like_times};
pub(crate) use profiles::{JAX, NUMPY, TORCH};
pub(crate) use report::{canonical, consumers, fit, origin};
pub(crate) use to::{to, to_array, to_checked};
