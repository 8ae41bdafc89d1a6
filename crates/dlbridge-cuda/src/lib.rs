//! docs
mod copy;
mod cuda_tensor;
mod driver;
mod error;
mod lend;
mod order;
mod owner;
mod slice;
mod staging;
mod tensor;

pub use copy::to_device;
pub use cuda_tensor::CudaTensor;
pub use driver::{context, device_of, is_present};
pub use error::{Error, Result};
pub use lend::{LendExt, LendMutExt};
pub use slice::SliceExt;
pub use tensor::TensorExt;

/// Keeps the extension traits closed, so that they can grow.
mod sealed {
    pub trait Sealed {}
}
