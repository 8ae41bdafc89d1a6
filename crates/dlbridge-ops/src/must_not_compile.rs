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
//! dlbridge_ops::library!("refused": hides);
//! # fn main() {}
//! ```
//!
//! Names are those of Python too:
//! ```compile_fail
//! #[dlbridge_ops::op]
//! fn filters(x: &[f32], lambda: f64, out: &mut [f32]) {}
//! ```
//! A parameter is a tensor for all types, or for none:
//! ```compile_fail,E0080
//! use dlbridge_ops::Argument;
//! trait Either { type Of<'a>: Argument<'a>; }
//! impl Either for f32 { type Of<'a> = &'a [f32]; }
//! impl Either for f64 { type Of<'a> = f64; }
//! #[dlbridge_ops::op(T in [f32, f64])]
//! fn differs<T: Either>(x: <T as Either>::Of<'_>, y: &[f32], out: &mut [f32]) {}
//! dlbridge_ops::library!("refused": differs);
//! # fn main() {}
//! ```
//! An output whose shape the function decides has no leading dimensions of its inputs:
//! ```compile_fail,E0080
//! #[dlbridge_ops::op(elementwise)]
//! fn keeps(x: &[f32], out: dlbridge_ops::Dynamic<'_, f32, 1>) {}
//! dlbridge_ops::library!("refused": keeps);
//! # fn main() {}
//! ```
//! A shape has as many extents as the type of the output has dimensions:
//! ```compile_fail,E0080
//! use dlbridge_ops::{Out, View, op};
//! #[op(shape(out = [x[0], x[1..-1]]))]
//! fn sums(x: View<'_, f32, 2>, out: Out<'_, f32, 2>) {}
//! dlbridge_ops::library!("refused": sums);
//! # fn main() {}
//! ```
//! A slice may have more dimensions than the axis that a shape reads:
//! ```compile_fail,E0080
//! #[dlbridge_ops::op(shape(out = [(x[0] - 3) / 2]))]
//! fn median(x: &[f32], out: &mut [f32]) {}
//! dlbridge_ops::library!("refused": median);
//! # fn main() {}
//! ```
//! or that a requirement reads:
//! ```compile_fail,E0080
//! #[dlbridge_ops::op(require(x[0] == weights[0]))]
//! fn weighted(x: &[f32], weights: Option<&[f32]>, out: &mut [f32]) {}
//! dlbridge_ops::library!("refused": weighted);
//! # fn main() {}
//! ```
//! The library of an operator has its vjp:
//! ```compile_fail,E0080
//! #[dlbridge_ops::op(vjp = silu_grad)]
//! fn silu(x: &[f32], out: &mut [f32]) {}
//! dlbridge_ops::library!("activations": silu);
//! # fn main() {}
//! ```
//! Safe code cannot describe an operator by hand, whose schema could differ from the function:
//! ```compile_fail,E0200
//! #[dlbridge_ops::op]
//! fn copies(x: &[f32], out: &mut [f32]) {}
//! struct ByHand;
//! impl dlbridge_ops::Define for ByHand {
//!     const OPERATOR: &'static dlbridge_ops::Operator = copies::Operator::OPERATOR;
//! }
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
