//! Code that the compiler must refuse: minimal examples, each with the expected error code. Only nightly compares the
//! codes: `cargo +nightly test -p dlbridge-ops --doc must_not_compile`.
//!
//! # Functions that are not operators
//!
//! An operator has an output or changes an argument:
//! ```compile_fail
//! #[dlbridge_ops::op]
//! fn nothing(x: &[f32]) {}
//! ```
//! A parameter has a type that frameworks can pass:
//! ```compile_fail,E0277
//! #[dlbridge_ops::op]
//! fn pads(x: &[f32], width: u8, out: &mut [f32]) {}
//! ```
//! An operator returns nothing or a result:
//! ```compile_fail,E0277
//! #[dlbridge_ops::op]
//! fn counts(x: &[f32], out: &mut [f32]) -> usize {
//!     x.len()
//! }
//! ```
//! A generic type needs its list of types:
//! ```compile_fail
//! #[dlbridge_ops::op]
//! fn copies<T: Copy>(x: &[T], out: &mut [T]) {}
//! ```
//! A type alias does not hide an output:
//! ```compile_fail,E0080
//! type Result = dlbridge_ops::Out<'static, f32>;
//! #[dlbridge_ops::op]
//! fn hides(x: &[f32], result: Result, out: &mut [f32]) {}
//! # use dlbridge_ops::Define;
//! # fn main() {
//! #     let _ = hides::Operator::OPERATOR;
//! # }
//! ```
//!
//! # Memory that outlives the call
//!
//! A function cannot keep an argument:
//! ```compile_fail,E0521
//! use std::sync::Mutex;
//! static KEPT: Mutex<&[f32]> = Mutex::new(&[]);
//! #[dlbridge_ops::op]
//! fn keeps(x: &[f32], out: &mut [f32]) {
//!     *KEPT.lock().unwrap() = x;
//! }
//! ```
//! Nor can it demand an argument that lives as long as the program:
//! ```compile_fail
//! #[dlbridge_ops::op]
//! fn demands(x: &'static [f32], out: &mut [f32]) {}
//! ```
//! An output of decided shape is made once:
//! ```compile_fail,E0382
//! #[dlbridge_ops::op]
//! fn twice(x: &[f32], out: dlbridge_ops::Dynamic<'_, f32, 1>) {
//!     let one = out.allocate([1]);
//!     let two = out.allocate([1]);
//! }
//! ```
