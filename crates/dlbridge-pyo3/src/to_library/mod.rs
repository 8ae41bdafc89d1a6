//! Tensors as objects of the framework that the caller works with.

mod array;
mod entrance;
mod likeness;
mod measure;
mod names;
mod offer;
mod probe;
mod readings;
mod report;
mod to;

pub(crate) use array::to_array;
pub(crate) use likeness::{like, like_tensor, like_times};
pub(crate) use names::{framework, library_name};
pub(crate) use report::{canonical, consumers, fit, origin};
pub(crate) use to::{give, to, to_named};
