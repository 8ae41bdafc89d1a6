//! Code that the compiler must refuse with a certain error. Nightly compares the error: `cargo +nightly test -p
//! dlbridge-ort --doc must_not_compile`.
//!
//! Safe code cannot make an input, because it cannot promise that nothing writes an output on the same memory:
//! ```compile_fail,E0133
//! use dlbridge_ort::TensorExt;
//!
//! let _ = dlbridge::Tensor::from([1_u8]).into_input();
//! ```
//! nor wrap a value, because other holders may write its memory:
//! ```compile_fail,E0133
//! use dlbridge_ort::ValueExt;
//!
//! let _ = ort::value::Tensor::from_array(([1_usize], vec![1_u8])).unwrap().into_tensor();
//! ```
