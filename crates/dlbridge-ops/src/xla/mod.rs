//! Operators of JAX: handlers of XLA's foreign function interface. They run without Python.
//!
//! - `frame`: the C structs;
//! - `buffers`: an argument or a result as a tensor;
//! - `arguments`: the values of the parameters;
//! - `attributes`: numbers, strings and lists;
//! - `stream`: the device and the stream of a call on CUDA;
//! - `handler`: one call, and its error.

mod arguments;
mod attributes;
mod buffers;
pub mod frame;
mod handler;
mod stream;

pub use frame::{CallFrame, Handler, XlaError};
pub use handler::call;
