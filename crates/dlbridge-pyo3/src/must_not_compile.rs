//! Code that the compiler must refuse, in minimal examples.
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
//! Writing a read-only argument; a view of one of several types without dispatch; a view of data on a device:
//!
//! ```compile_fail,E0599
//! fn f(mut x: dlbridge_pyo3::PyReadonlyTensor<'_, f32, 1>) {
//!     x.view_mut();
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn f(x: dlbridge_pyo3::PyReadonlyTensor<'_, dlbridge_pyo3::OneOf<(f32, f64)>, 1>) {
//!     x.view();
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn f(x: dlbridge_pyo3::PyDeviceTensor<'_, f32, 1>) {
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
//! fn f(py: pyo3::Python<'_>, x: dlbridge_pyo3::PyReadonlyTensor<'_, f32, 1>) -> f32 {
//!     py.detach(|| x.iter().sum())
//! }
//! ```
//!
//! A stream without an unsafe promise:
//!
//! ```compile_fail,E0200
//! struct Ours;
//!
//! impl dlbridge_pyo3::Stream for Ours {
//!     const HANDLE: Option<fn(dlbridge::Device) -> pyo3::PyResult<*mut std::ffi::c_void>> = None;
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
//! # Contradictory demands
//!
//! They are refused when the code that takes such an argument is compiled.

/// Takes an argument of a type in a compiled function.
macro_rules! refused {
    ($($name:ident: $doc:literal, $argument:literal;)+) => {$(
        #[doc = $doc]
        ///
        /// ```compile_fail,E0080
        /// use dlbridge_pyo3::*;
        /// use pyo3::prelude::*;
        ///
        #[doc = concat!("type Refused<'py> = ", $argument, ";")]
        ///
        /// fn f<'py>(x: &Bound<'py, PyAny>) -> PyResult<Refused<'py>> {
        ///     Ok(x.extract()?)
        /// }
        ///
        /// fn main() {
        ///     let _: for<'py> fn(&Bound<'py, PyAny>) -> PyResult<Refused<'py>> = f;
        /// }
        /// ```
        struct $name;
    )+};
}

refused! {
    Orders: "Two orders at once.", "PyReadonlyTensor<'py, f32, 2, (COrder, FortranOrder)>";
    Alignment: "An alignment that is not a power of two.", "PyReadonlyTensor<'py, f32, 1, Aligned<3>>";
    Copy: "A copy of an argument that is written.", "PyReadwriteTensor<'py, f32, 1, AllowCopy>";
    Extents: "Extents for another number of dimensions.", "PyReadonlyTensor<'py, u8, 2, dims!(_, _, 3)>";
    Written: "Writing a read-only argument.", "PyReadonlyTensor<'py, f32, 1, Writable>";
    Place: "A device that the CPU cannot read.", "PyReadonlyTensor<'py, f32, 1, OnCuda>";
}
