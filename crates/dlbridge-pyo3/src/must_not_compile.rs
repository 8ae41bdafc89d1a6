//! Code that the compiler must refuse, in minimal examples. Contradictory demands in a type are refused when the code
//! that takes such an argument is compiled.
//!
//! A view that outlives its argument:
//!
//! ```compile_fail,E0505
//! fn f(x: dlbridge_pyo3::PyReadonlyTensor<'_, f32, 1>) -> f32 {
//!     let view = x.view();
//!     drop(x);
//!     view[[0]]
//! }
//! ```
//!
//! A slice that outlives the call:
//!
//! ```compile_fail,E0515
//! fn f(x: dlbridge_pyo3::PyReadonlyTensor<'static, f32, 1>) -> Option<&'static [f32]> {
//!     x.as_slice()
//! }
//! ```
//!
//! Two views of an argument that is written:
//!
//! ```compile_fail,E0499
//! fn f(mut x: dlbridge_pyo3::PyReadwriteTensor<'_, f32, 1>) {
//!     let one = x.view_mut();
//!     let two = x.view_mut();
//!     drop((one, two));
//! }
//! ```
//!
//! A view to read beside a view to write:
//!
//! ```compile_fail,E0502
//! fn f(mut x: dlbridge_pyo3::PyReadwriteTensor<'_, f32, 1>) {
//!     let read = x.view();
//!     let write = x.view_mut();
//!     drop((read, write));
//! }
//! ```
//!
//! Writing a read-only argument:
//!
//! ```compile_fail,E0599
//! fn f(mut x: dlbridge_pyo3::PyReadonlyTensor<'_, f32, 1>) {
//!     x.view_mut();
//! }
//! ```
//!
//! Elements of another type than the argument's:
//!
//! ```compile_fail,E0308
//! fn f(x: dlbridge_pyo3::PyReadonlyTensor<'_, f32, 1>) -> Option<&[f64]> {
//!     x.as_slice()
//! }
//! ```
//!
//! A view of one of several types, without dispatch:
//!
//! ```compile_fail,E0599
//! use dlbridge_pyo3::{OneOf, PyReadonlyTensor};
//!
//! fn f(x: PyReadonlyTensor<'_, OneOf<(f32, f64)>, 1>) {
//!     x.view();
//! }
//! ```
//!
//! A slice without a constraint on the order:
//!
//! ```compile_fail,E0277
//! fn f(x: dlbridge_pyo3::PyReadonlyTensor<'_, f32, 2>) -> f32 {
//!     x.slice().iter().sum()
//! }
//! ```
//!
//! The argument itself in detached code:
//!
//! ```compile_fail,E0277
//! use pyo3::prelude::*;
//!
//! fn f(py: Python<'_>, x: dlbridge_pyo3::PyReadonlyTensor<'_, f32, 1>) -> f32 {
//!     py.detach(|| x.iter().sum())
//! }
//! ```
//!
//! Two orders at once:
//!
//! ```compile_fail,E0080
//! use dlbridge_pyo3::{COrder, FortranOrder, PyReadonlyTensor};
//! use pyo3::prelude::*;
//!
//! type Both<'py> = PyReadonlyTensor<'py, f32, 2, (COrder, FortranOrder)>;
//!
//! fn f<'py>(x: &Bound<'py, PyAny>) -> PyResult<Both<'py>> {
//!     Ok(x.extract()?)
//! }
//! # fn main() { let _: for<'py> fn(&Bound<'py, PyAny>) -> PyResult<Both<'py>> = f; }
//! ```
//!
//! An alignment that is not a power of two:
//!
//! ```compile_fail,E0080
//! use dlbridge_pyo3::{Aligned, PyReadonlyTensor};
//! use pyo3::prelude::*;
//!
//! fn f<'py>(x: &Bound<'py, PyAny>) -> PyResult<PyReadonlyTensor<'py, f32, 1, Aligned<3>>> {
//!     Ok(x.extract()?)
//! }
//! # fn main() { let _: for<'py> fn(&Bound<'py, PyAny>) -> PyResult<PyReadonlyTensor<'py, f32, 1, Aligned<3>>> = f; }
//! ```
//!
//! A copy of an argument that is written:
//!
//! ```compile_fail,E0080
//! use dlbridge_pyo3::{AllowCopy, PyReadwriteTensor};
//! use pyo3::prelude::*;
//!
//! fn f<'py>(x: &Bound<'py, PyAny>) -> PyResult<PyReadwriteTensor<'py, f32, 1, AllowCopy>> {
//!     Ok(x.extract()?)
//! }
//! # fn main() { let _: for<'py> fn(&Bound<'py, PyAny>) -> PyResult<PyReadwriteTensor<'py, f32, 1, AllowCopy>> = f; }
//! ```
//!
//! Extents for another number of dimensions:
//!
//! ```compile_fail,E0080
//! use dlbridge_pyo3::{PyReadonlyTensor, dims};
//! use pyo3::prelude::*;
//!
//! type Pixels<'py> = PyReadonlyTensor<'py, u8, 2, dims!(_, _, 3)>;
//!
//! fn f<'py>(x: &Bound<'py, PyAny>) -> PyResult<Pixels<'py>> {
//!     Ok(x.extract()?)
//! }
//! # fn main() { let _: for<'py> fn(&Bound<'py, PyAny>) -> PyResult<Pixels<'py>> = f; }
//! ```
//!
//! Writing a read-only argument, by a constraint:
//!
//! ```compile_fail,E0080
//! use dlbridge_pyo3::{PyReadonlyTensor, Writable};
//! use pyo3::prelude::*;
//!
//! fn f<'py>(x: &Bound<'py, PyAny>) -> PyResult<PyReadonlyTensor<'py, f32, 1, Writable>> {
//!     Ok(x.extract()?)
//! }
//! # fn main() { let _: for<'py> fn(&Bound<'py, PyAny>) -> PyResult<PyReadonlyTensor<'py, f32, 1, Writable>> = f; }
//! ```
//!
//! A view of data on a device:
//!
//! ```compile_fail,E0599
//! fn f(x: dlbridge_pyo3::PyDeviceTensor<'_, f32, 1>) {
//!     x.view();
//! }
//! ```
//!
//! A stream without an unsafe promise:
//!
//! ```compile_fail,E0200
//! use dlbridge::Device;
//! use pyo3::prelude::*;
//!
//! struct Ours;
//!
//! impl dlbridge_pyo3::Stream for Ours {
//!     const HANDLE: Option<fn(Device) -> PyResult<*mut std::ffi::c_void>> = None;
//! }
//! ```
//!
//! An element type of your own, which could receive data to write:
//!
//! ```compile_fail,E0277
//! struct Any;
//!
//! impl dlbridge_pyo3::Accepts for Any {
//!     const DTYPES: &'static [dlbridge::DataType] = &[];
//! }
//! ```
//!
//! A constraint of your own, which could claim an order:
//!
//! ```compile_fail,E0603
//! struct Ordered;
//!
//! impl dlbridge_pyo3::Constraint for Ordered {
//!     const SPEC: dlbridge_pyo3::argument::spec::ArgumentSpec = <() as dlbridge_pyo3::Constraint>::SPEC;
//! }
//! ```
//!
//! An array of the extents of an argument with any number of dimensions:
//!
//! ```compile_fail
//! fn f(x: dlbridge_pyo3::PyReadonlyTensor<'_, f32, { dlbridge_pyo3::DYNAMIC }>) -> usize {
//!     x.dims().len()
//! }
//! # fn main() { let _: fn(dlbridge_pyo3::PyReadonlyTensor<'_, f32, { dlbridge_pyo3::DYNAMIC }>) -> usize = f; }
//! ```
//!
//! A device that the CPU cannot read, for an argument that the CPU reads:
//!
//! ```compile_fail,E0080
//! use dlbridge_pyo3::{OnCuda, PyReadonlyTensor};
//! use pyo3::prelude::*;
//!
//! fn f<'py>(x: &Bound<'py, PyAny>) -> PyResult<PyReadonlyTensor<'py, f32, 1, OnCuda>> {
//!     Ok(x.extract()?)
//! }
//! # fn main() { let _: for<'py> fn(&Bound<'py, PyAny>) -> PyResult<PyReadonlyTensor<'py, f32, 1, OnCuda>> = f; }
//! ```
