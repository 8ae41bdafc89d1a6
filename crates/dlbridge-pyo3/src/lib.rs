//! DLPack for authors of PyO3 extensions: take any Python tensor without a copy, return one that
//! every framework accepts.
//!
//! ```no_run
//! use dlbridge_pyo3::{PyReadonlyTensor, PyTensor};
//! use pyo3::prelude::*;
//!
//! /// The sum of any framework's float32 matrix.
//! #[pyfunction]
//! fn total(x: PyReadonlyTensor<'_, f32, 2>) -> f32 {
//!     x.iter().sum()
//! }
//!
//! /// What `numpy.from_dlpack`, `torch.from_dlpack`, `jax.numpy.from_dlpack` take as it is.
//! #[pyfunction]
//! fn ramp(n: usize) -> PyTensor {
//!     PyTensor::from((0..n).map(|i| i as f32).collect::<Vec<_>>())
//! }
//! ```
//!
//! # Where things are
//!
//! | | |
//! | --- | --- |
//! | [`PyReadonlyTensor`], [`PyReadwriteTensor`] | arguments: dtype, dimensions and more in the type |
//! | [`Accepts`], [`Constraint`] | what an argument can demand; [`dispatch!`] for several dtypes |
//! | [`PyTensor`] | the Python class `Tensor`: owns memory, exports it any number of times |
//! | [`import`], [`PyTensor::import`] | any object that speaks a protocol, in |
//! | [`Protocol`] | which door it came through |
//! | [`is_main_interpreter`] | for extensions that must refuse a subinterpreter |
//! | `protocol/` | one file per door, import and export together |
//!
//! # Who may read and write
//!
//! While a typed argument lives its memory is borrowed, and that of [`import`] as long as its tensor does: of a
//! byte there are any number of readers, or one writer, in all extensions of the process that are built on
//! dlbridge or use rust-numpy. What overlaps is a `BufferError`. Python code does not ask: what it writes
//! while a function holds a view, in another thread or because the function calls it, is the program's race.
//!
//! Deleters and capsule destructors run on any thread, with or without the GIL, keep a pending
//! exception, and never unwind into C. What Python owns is released while the interpreter lives,
//! and left alone after.

mod argument;
mod borrow;
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
mod returned;
mod tensor;
mod wanted;

pub use argument::{
    Accepts, Adjacent, Aligned, AllowCopy, Any, AnyDataType, COrder, Constraint, Contiguous,
    DYNAMIC, Dims, Extent, FortranOrder, InCOrder, Is, OneOf, PyReadonlyTensor, PyReadwriteTensor,
    Requirement,
};
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

#[cfg(doctest)]
#[doc = include_str!("../../../docs/pyo3.md")]
struct Guide;
