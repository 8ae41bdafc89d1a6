//! Work on the devices of CUDA and ROCm: streams, copies, and memory that is given back in their order.

mod copy;
mod driver;
mod event;
mod release;
mod staging;

pub(crate) use copy::{Place, copied, is_possible};
pub(crate) use driver::{Driver, Failure};
pub(crate) use event::{order, wait};
pub(crate) use release::after_stream;
