//! Values of ONNX Runtime as tensors, and tensors as values, without a copy, for [ort] 2.0.0-rc.15.
//!
//! ```no_run
//! use dlbridge::Tensor;
//! use dlbridge_ort::{TensorExt, ValueExt};
//! use ort::session::Session;
//!
//! let environment = ort::init().build()?;
//! let mut session = Session::builder(&environment)?.commit_from_file("model.onnx")?;
//!
//! let pixels = Tensor::from([[0.5_f32, 0.25], [0.0, 1.0]]);
//! let input = pixels.into_value()?;                    // the same memory, which the value keeps alive
//! let mut outputs = session.run(ort::inputs!["x" => input])?;
//! let output = outputs.remove("y").expect("the model has such an output");
//! // SAFETY: the run used no binding and no preallocated output, and its other outputs and its input are never written.
//! let tensor = unsafe { output.into_tensor() }?;       // the same memory, for any consumer of DLPack
//! assert_eq!(tensor.shape(), [2, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | | | |
//! | --- | --- | --- |
//! | [`ValueExt::to_tensor`] | a value to a tensor | copy |
//! | [`ValueExt::into_tensor`], unsafe | a value to a tensor, if nothing else writes it | zero-copy |
//! | [`TensorExt::into_input`], unsafe | a tensor to an input of sessions: any access | zero-copy |
//! | [`TensorExt::into_value`], [`into_value_of`](TensorExt::into_value_of) | an exclusive tensor to a value | zero-copy |
//! | [`TensorExt::to_value`] | a tensor to a value: any strides, alignment and access | copy |
//!
//! All values are in C order and on the host. A tensor that is all of a value, as
//! [`into_tensor`](ValueExt::into_tensor) made it, becomes that value again, unless its memory must not be written or
//! belongs to an input.
//!
//! | elements of ort | dtype | |
//! | --- | --- | --- |
//! | `Float32`, `Float64`, `Float16`, `Bfloat16` | `float32`, `float64`, `float16`, `bfloat16` | both ways |
//! | `Int8` to `Int64`, `Uint8` to `Uint64` | `int8` to `int64`, `uint8` to `uint64` | both ways |
//! | `Bool` | `bool` | both ways; bytes are checked when a tensor becomes a value; a value becomes an immutable tensor |
//! | `Float8E4M3FN`, `Float8E4M3FNUZ`, `Float8E5M2`, `Float8E5M2FNUZ`, `Float8E8M0` | `float8_e4m3fn`, `float8_e4m3fnuz`, `float8_e5m2`, `float8_e5m2fnuz`, `float8_e8m0fnu` | both ways |
//! | `Int4`, `Uint4`, `Int2`, `Uint2`, `Float4E2M1` | `int4`, `uint4`, `int2`, `uint2`, `float4_e2m1fn` | both ways, packed |
//! | `Complex64`, `Complex128` | `complex64`, `complex128` | mapped, but ONNX Runtime itself refuses such values |
//! | `String`, `Undefined` | | refused by name |
//!
//! # Write access
//!
//! - Safe code can write a **value**, so only an [exclusive](dlbridge::Access::Exclusive) tensor becomes one. A
//!   session only reads its inputs, so any tensor becomes an [`Input`], which safe code cannot write: also read-only
//!   memory, and memory of a Python framework. Making an input is unsafe: if an output of the model *is* its input,
//!   ort returns that memory as a value that safe code can write.
//! - A tensor that wraps a value is [shared](dlbridge::Access::Shared): consumers of DLPack may write it. Rust code
//!   that knows that no other holder exists says so with [`assume_exclusive`](dlbridge::Tensor::assume_exclusive).
//! - Nearly every output is the only value on its memory, but ort does not show this. ONNX Runtime returns the memory
//!   of the input if a model's output *is* its input, and the memory of a value that was bound or preallocated as an
//!   output. The next run writes that memory again, so [`into_tensor`](ValueExt::into_tensor) is unsafe: drop the
//!   binding, or the options, first.
//! - If that memory belongs to a read-only tensor, the output's tensor is read-only too; if it is the memory of an
//!   [`Input`], it does not become a value again.
//! - `bool` elements that other code may write are refused, because ort returns them as `&[bool]`. A `bool` value
//!   becomes an [immutable](dlbridge::Access::Immutable) tensor, which can be an input again.
//!
//! # Limits of ort
//!
//! - **Strides.** A value is in C order; [`to_value`](TensorExt::to_value) copies other tensors.
//! - **Read-only values.** ort lacks them, hence [`Input`]. If a model's output is its input, ort gives safe code a
//!   writable second value over the input's memory, as it does for its own borrowed inputs. To run a model that you
//!   do not know, do not write the outputs, or compare their addresses with those of the inputs first.
//! - **Other holders of a value.** ort does not show them: a binding keeps its outputs, options keep the values that
//!   they preallocate, and outputs keep the values that were removed from them. The safety section of
//!   [`into_tensor`](ValueExt::into_tensor) lists them; [`to_tensor`](ValueExt::to_tensor) copies instead.
//! - **Borrowed inputs.** ort makes values of borrowed slices. If a model's output is its input, ort returns an
//!   output over the same memory that may outlive the borrow. So this crate never borrows: the tensor lives until the
//!   last value on its memory is dropped.
//! - **Other devices.** Values in the memory of a GPU are refused by the name of the device; bind the output to the
//!   CPU.
//! - **Other values.** Sequences, maps and optional values are refused by name.
//!
//! # The library of ONNX Runtime
//!
//! It must be of version 1.22 or later. With the feature `load-dynamic`, which is on by default, the first call opens
//! the file that the environment variable `ORT_DYLIB_PATH` names, or else `libonnxruntime.so` or its name on the
//! platform. If opening fails, the functions of this crate return [`Error::Library`]; those of ort itself panic. A
//! program that calls [`ort::init_from`] first has already opened the library. In a Python process use the file in
//! the wheel of onnxruntime: `onnxruntime/capi/libonnxruntime.so.*`. A program that links the library turns the
//! feature off, and enables the features of ort that it needs.

mod element;
mod error;
mod export;
mod input;
mod library;
mod value;

pub use error::{Error, Result};
pub use export::TensorExt;
pub use input::Input;
pub use value::ValueExt;

/// Keeps the extension traits closed, so that methods can be added.
mod sealed {
    pub trait Sealed {}
}

/// Code that the compiler must refuse with a certain error. Nightly compares the error: `cargo +nightly test -p
/// dlbridge-ort --doc must_not_compile`.
///
/// Safe code cannot make an input, because it cannot promise that nothing writes an output on the same memory:
/// ```compile_fail,E0133
/// use dlbridge_ort::TensorExt;
///
/// let _ = dlbridge::Tensor::from([1_u8]).into_input();
/// ```
/// nor wrap a value, because other holders may write its memory:
/// ```compile_fail,E0133
/// use dlbridge_ort::ValueExt;
///
/// let _ = ort::value::Tensor::from_array(([1_usize], vec![1_u8])).unwrap().into_tensor();
/// ```
#[cfg(doctest)]
mod must_not_compile {}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
