//! DLPack for authors of PyO3 extensions: take any Python tensor without a copy, return one that
//! every framework accepts.
//!
//! ```no_run
//! use dlbridge::Tensor;
//! use dlbridge_pyo3::{PyTensor, import};
//! use pyo3::prelude::*;
//!
//! /// The sum of any framework's float32 tensor.
//! #[pyfunction]
//! fn total(x: &Bound<'_, PyAny>) -> PyResult<f32> {
//!     let tensor = import(x)?;
//!     let view = tensor.view::<f32>().map_err(dlbridge_pyo3::to_py_err)?;
//!     Ok(view.iter().sum())
//! }
//!
//! /// What `numpy.from_dlpack`, `torch.from_dlpack`, `jax.numpy.from_dlpack` take as it is.
//! #[pyfunction]
//! fn ramp(n: usize) -> PyTensor {
//!     Tensor::from((0..n).map(|i| i as f32).collect::<Vec<_>>()).into()
//! }
//! ```
//!
//! # Where things are
//!
//! | | |
//! | --- | --- |
//! | [`PyTensor`] | the Python class `Tensor`: owns memory, exports it any number of times |
//! | [`import`], [`PyTensor::import`] | any object that speaks a protocol, in |
//! | [`Protocol`] | which door it came through |
//! | [`is_main_interpreter`] | for extensions that must refuse a subinterpreter |
//! | `protocol/` | one file per door, import and export together |
//!
//! # Who may write
//!
//! A tensor from Python is [`Access::Shared`](dlbridge::Access::Shared) unless its producer marks it
//! read-only or as a copy: it can be viewed, not viewed mutably. While a view is alive, Python code
//! that writes the same memory is the program's race, as it is among Python frameworks: code in
//! another thread, and code that the Rust function itself calls meanwhile.
//!
//! Deleters and capsule destructors run on any thread, with or without the GIL, keep a pending
//! exception, and never unwind into C. What Python owns is released while the interpreter lives,
//! and left alone after.

mod capsule;
mod consumer;
mod cuda_driver;
mod error;
mod functions;
mod home;
mod interpreter;
mod lent;
mod live;
mod pending;
mod pickle;
mod protocol;
mod receipt;
mod tensor;
mod wanted;

pub use error::to_py_err;
#[doc(hidden)]
pub use functions::{asdlpack, empty, from_dlpack};
#[doc(hidden)]
pub use home::{canonical, consumers, fit, like, origin};
pub use interpreter::is_main_interpreter;
#[doc(hidden)]
pub use live::{live_exports, record_exports};
#[doc(hidden)]
pub use pickle::rebuild;
pub use protocol::{Protocol, import};
pub use receipt::CopyReason;
pub use tensor::PyTensor;
pub use wanted::{Order, Wanted};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
