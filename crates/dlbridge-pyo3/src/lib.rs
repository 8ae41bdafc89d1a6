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
//! | [`PyDeviceTensor`] | an argument that stays on its device, with the [`Stream`] that it is in order with |
//! | [`Accepts`], [`Constraint`] | what an argument can demand; [`dispatch!`] for several dtypes |
//! | [`PyTensor`] | the Python class `Tensor`: owns memory, exports it any number of times |
//! | [`import`], [`PyTensor::import`] | any object that speaks a protocol, in |
//! | [`into_capsule`] | a bare capsule, for a `__dlpack__` of one's own |
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
#[doc(hidden)]
pub mod doors;
mod error;
mod functions;
mod gpu;
mod home;
mod interpreter;
mod lent;
mod live;
#[cfg(doctest)]
mod must_not_compile;
mod pending;
mod pickle;
mod protocol;
mod receipt;
mod returned;
mod tensor;
mod wanted;

pub use argument::{
    ANY, Accepts, Adjacent, Aligned, AllowCopy, AnyDataType, COrder, Constraint, Contiguous,
    DYNAMIC, DefaultStream, Dims, FortranOrder, InCOrder, OnCuda, OnDevice, OnRocm, OneOf,
    PyDeviceTensor, PyReadonlyTensor, PyReadwriteTensor, Requirement, Stream, WorkStream, Writable,
};
/// Gives a class all doors out: `__dlpack__`, `__dlpack_device__`, the C exchange API, the array interfaces, the
/// buffer protocol, Arrow, `__array__` and pickling. It goes above the `#[pymethods]` of the class, and names the
/// function that lends its tensor, from `&self`.
///
/// The function returns a `&Py<PyTensor>` that the object keeps, or a tensor that it makes each time: a
/// [`PyTensor`] or a [`Tensor`](dlbridge::Tensor), or a `Result` of one. The code of the class reaches the elements
/// of a kept tensor as anybody does, by a typed argument, so that it neither reads what somebody writes nor
/// writes what somebody reads.
///
/// A method that the block has itself stays as it is. What is pickled comes back as a `dlbridge.Tensor`.
///
/// ```no_run
/// use dlbridge_pyo3::{PyReadonlyTensor, PyTensor, producer};
/// use pyo3::prelude::*;
///
/// /// A sound: `torch.from_dlpack(sound)`, `numpy.asarray(sound)` and `memoryview(sound)` share its memory.
/// #[pyclass]
/// struct Sound {
///     samples: Py<PyTensor>,
/// }
///
/// impl Sound {
///     fn samples(&self) -> &Py<PyTensor> {
///         &self.samples
///     }
/// }
///
/// #[producer(Self::samples)]
/// #[pymethods]
/// impl Sound {
///     #[new]
///     fn new(py: Python<'_>, frames: usize) -> PyResult<Self> {
///         Ok(Self { samples: Py::new(py, PyTensor::from(vec![0.0_f32; frames]))? })
///     }
///
///     fn loudest(&self, py: Python<'_>) -> PyResult<f32> {
///         let samples: PyReadonlyTensor<'_, f32, 1> = self.samples.bind(py).extract()?;
///         Ok(samples.iter().fold(0.0, |loudest, sample| sample.abs().max(loudest)))
///     }
/// }
/// ```
pub use dlbridge_pyo3_macros::producer;
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
pub use protocol::exchange_table::exchange_table;
pub use protocol::{Protocol, import};
pub use receipt::CopyReason;
pub use returned::into_capsule;
pub use tensor::PyTensor;
pub use wanted::{Order, Wanted};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/pyo3.md")]
struct Guide;

#[cfg(all(doctest, feature = "ndarray"))]
#[doc = include_str!("../../../docs/migration.md")]
struct Migration;
