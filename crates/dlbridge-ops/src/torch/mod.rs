//! PyTorch: operators in its dispatcher, by the stable C functions of `libtorch_cpu`.
//!
//! - `shim` finds the functions in the PyTorch that is loaded;
//! - `stack` owns the arguments of a call;
//! - `values` makes values of them;
//! - `kernel` has the functions that PyTorch calls, and makes the outputs;
//! - `register` defines the operators.

#[cfg(unix)]
mod kernel;
#[cfg(unix)]
mod register;
#[cfg(unix)]
mod shim;
#[cfg(unix)]
mod stack;
#[cfg(not(unix))]
mod unsupported;
#[cfg(unix)]
mod values;

#[cfg(unix)]
pub use self::kernel::{kernel, meta_kernel, out_kernel};
pub(crate) use self::register::loaded;
pub use self::register::register;
#[cfg(feature = "python")]
pub(crate) use self::register::withdraw;
#[cfg(not(unix))]
use self::unsupported as register;
#[cfg(not(unix))]
pub use self::unsupported::{kernel, meta_kernel, out_kernel};
