//! Code that the compiler must refuse with a certain error (nightly compares it: `cargo +nightly test -p dlbridge-ort --doc
//! must_not_compile`).
//!
//! Safe code does not promise that nothing writes an output that is the input:
//! ```compile_fail,E0133
//! use dlbridge_ort::TensorExt;
//!
//! let _ = dlbridge::Tensor::from([1_u8]).into_input();
//! ```
//! nor that nothing else writes the memory of a value:
//! ```compile_fail,E0133
//! use dlbridge_ort::ValueExt;
//!
//! let _ = ort::value::Tensor::from_array(([1_usize], vec![1_u8])).unwrap().into_tensor();
//! ```
