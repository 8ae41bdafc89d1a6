//! DLPack for authors of PyO3 extensions: accept any Python tensor without a copy, return one that
//! any framework can import.
//!
//! ```no_run
//! use dlbridge_pyo3::{Numpy, PyReadonlyTensor, PyTensor};
//! use pyo3::prelude::*;
//!
//! /// The sum of any framework's float32 matrix.
//! #[pyfunction]
//! fn total(x: PyReadonlyTensor<'_, f32, 2>) -> f32 {
//!     x.iter().sum()
//! }
//!
//! /// A NumPy array.
//! #[pyfunction]
//! fn squares(n: u32) -> Numpy<u32, 1> {
//!     (0..n).map(|i| i * i).collect::<Vec<_>>().into()
//! }
//!
//! /// A tensor that `numpy.from_dlpack`, `torch.from_dlpack` and `jax.numpy.from_dlpack` import.
//! #[pyfunction]
//! fn ramp(n: usize) -> PyTensor {
//!     PyTensor::from((0..n).map(|i| i as f32).collect::<Vec<_>>())
//! }
//! ```
//!
//! # Types and functions
//!
//! | | |
//! | --- | --- |
//! | [`PyReadonlyTensor`], [`PyReadwriteTensor`] | arguments: dtype, dimensions and more in the type |
//! | [`PyDeviceTensor`] | an argument that stays on its device, with the [`Stream`] that it is synchronised with |
//! | [`Accepts`], [`Constraint`] | the demands of an argument; [`dispatch!`] for several dtypes |
//! | [`ArgumentError`] | why an argument was refused; `?` makes it a `PyErr` |
//! | [`PyTensor`] | a result that any library imports: owns memory, exports it any number of times |
//! | [`dlbridge`] | the core, re-exported: `Tensor`, `Error`, views |
//! | [`Numpy`], [`Torch`], [`Like`] | results: a NumPy array, a PyTorch tensor, or an object of the caller's library |
//! | [`import()`], [`PyTensor::import`] | import any object that supports a protocol |
//! | [`into_capsule`] | a bare capsule, for your own `__dlpack__` |
//! | [`Protocol`] | the protocol of an import |
//! | [`share_borrows`] | shares the registry of borrows when an extension is imported |
//!
//! # Borrows
//!
//! A typed argument borrows its memory as long as it lives, and so does the tensor of [`import`]. Each byte has any
//! number of readers, or one writer, in all extensions of the process that are built on dlbridge or use rust-numpy. A
//! conflicting borrow raises `BufferError`. Python code does not take part in borrows: if it writes while a function
//! holds a view, in another thread or because the function calls it, the program has a race.
//!
//! Deleters and capsule destructors may run on any thread, with or without the GIL. They keep a pending exception and
//! never unwind into C. Python objects are released while the interpreter lives, and leaked afterwards.

// The hidden modules link to private items.
#![allow(rustdoc::private_intra_doc_links)]

#[cfg(not(Py_3_11))]
compile_error!(
    "dlbridge-pyo3 needs Python 3.11 or newer; build with PyO3's feature abi3-py311 or newer, or without abi3"
);

// The Python package uses the hidden modules, of exactly this version.
#[macro_use]
#[doc(hidden)]
pub mod python;

#[doc(hidden)]
pub mod argument;
#[doc(hidden)]
pub mod borrow;
#[doc(hidden)]
pub mod capsule;
mod elements;
#[doc(hidden)]
pub mod exchange_table;
#[doc(hidden)]
pub mod frameworks;
#[doc(hidden)]
pub mod import;
#[doc(hidden)]
pub mod import_options;
#[doc(hidden)]
pub mod imported;
#[doc(hidden)]
pub mod layout;
#[cfg(doctest)]
mod must_not_compile;
#[doc(hidden)]
pub mod numpy;
#[doc(hidden)]
pub mod producer;
#[doc(hidden)]
pub mod protocol;
#[doc(hidden)]
mod returned;
#[doc(hidden)]
pub mod stream;
#[doc(hidden)]
pub mod tensor;

/// The core: tensors without Python. Its features are also features of this crate.
///
/// An extension needs no other dependency of dlbridge, and `?` converts errors of the core to exceptions: a
/// `MemoryError` if memory ran out, a `BufferError` otherwise.
///
/// ```no_run
/// use dlbridge_pyo3::PyTensor;
/// use dlbridge_pyo3::dlbridge::Tensor;
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn matrix(elements: Vec<f32>, columns: usize) -> PyResult<PyTensor> {
///     let rows = elements.len() / columns.max(1);
///     let matrix = Tensor::from_parts(elements, [rows, columns])?;
///     Ok(PyTensor::from(matrix))
/// }
/// ```
#[doc(no_inline)]
pub use dlbridge;

pub use argument::{
    ANY, Accepts, Aligned, AllowCast, AllowCopy, AllowSequence, AnyDataType, ArgumentError, COrder,
    Constraint, Contiguous, DYNAMIC, DefaultStream, Dims, Each, Entries, FortranOrder, InCOrder,
    OnCuda, OnDevice, OneOf, PyDeviceTensor, PyReadonlyTensor, PyReadwriteTensor, Stream,
    WorkStream, Writable,
};
#[cfg(feature = "ndarray")]
pub use argument::{NdarrayDim, Ndim};
pub use borrow::share_borrows;
pub use dlbridge::CopyReason;
/// Adds all export protocols to a class: `__dlpack__`, `__dlpack_device__`, the C exchange API, the array interfaces,
/// the buffer protocol, Arrow, `__array__` and `__bytes__`. Write it above the class's `#[pymethods]`, with the function
/// that returns the tensor from `&self`.
///
/// The function returns a `&PyTensor` that the object keeps, or makes a tensor each time: a [`PyTensor`] or a
/// [`Tensor`](dlbridge::Tensor), or a `Result` of one. The class's own code accesses a kept tensor through a typed
/// argument, as all other code does, so a borrow protects it from other readers and writers.
///
/// `__array_interface__` and `__cuda_array_interface__` give the address of the memory to consumers that keep the object alone.
/// So only a frozen class whose function returns a `&PyTensor` has them.
///
/// A method that the block defines itself is kept. Pickling and copying are those of the class: without a `__reduce__` of
/// its own they are refused, as for any class of PyO3. One may return the class and its fields; the object of a
/// [`PyTensor`] ([`to_object`](PyTensor::to_object)) is pickled with its elements.
///
/// ```no_run
/// use dlbridge_pyo3::{PyReadonlyTensor, PyTensor, producer};
/// use pyo3::prelude::*;
///
/// /// A sound: `torch.from_dlpack(sound)`, `numpy.asarray(sound)` and `memoryview(sound)` share its memory.
/// #[pyclass(frozen)]
/// struct Sound {
///     samples: PyTensor,
/// }
///
/// impl Sound {
///     fn samples(&self) -> &PyTensor {
///         &self.samples
///     }
/// }
///
/// #[producer(Self::samples)]
/// #[pymethods]
/// impl Sound {
///     #[new]
///     fn new(frames: usize) -> Self {
///         Self { samples: PyTensor::from(vec![0.0_f32; frames]) }
///     }
///
///     fn loudest(&self, py: Python<'_>) -> PyResult<f32> {
///         let samples: PyReadonlyTensor<'_, f32, 1> = self.samples.extract(py)?;
///         Ok(samples.iter().fold(0.0, |loudest, sample| sample.abs().max(loudest)))
///     }
/// }
/// ```
pub use dlbridge_pyo3_macros::producer;
pub use import::import;
pub use import_options::{ImportOptions, Order};
pub use imported::Protocol;
#[doc(hidden)]
pub use python::copies::while_detached;
pub use returned::{IntoNumpy, Like, Numpy, Torch, into_capsule};
pub use tensor::PyTensor;

/// Compiles the Rust blocks of pages.
#[cfg(doctest)]
macro_rules! pages {
    ($($name:ident: $path:literal;)+) => {$(
        #[doc = include_str!($path)]
        struct $name;
    )+};
}

#[cfg(doctest)]
pages! {
    Readme: "../README.md";
    Guide: "../../../docs/pyo3.md";
    GettingStarted: "../../../docs/getting-started/pyo3.md";
    ReturnNumpy: "../../../docs/guides/return-numpy.md";
    AcceptAnyFramework: "../../../docs/guides/accept-any-framework.md";
    GpuStreams: "../../../docs/guides/gpu-streams.md";
    Tables: "../../../docs/guides/tables.md";
}

#[cfg(all(doctest, feature = "ndarray"))]
pages! { Migration: "../../../docs/migration.md"; }
