//! [tract_data] 0.23, the tensors of tract-core: to tensors without a copy, and from tensors with one.
//!
//! ```
//! use std::sync::Arc;
//! use dlbridge_tract::{TensorExt, TractExt};
//! use tract_data::prelude::tensor1;
//!
//! let tract = Arc::new(tensor1(&[1.0_f32, 2.0, 3.0]));
//! let tensor = Arc::clone(&tract).into_dlbridge()?;            // for any DLPack consumer
//! assert_eq!(tensor.data().addr(), tract.as_bytes().as_ptr().addr());
//! assert!(Arc::ptr_eq(&tensor.into_tract()?, &tract));         // the same tensor again
//! # Ok::<(), dlbridge_tract::Error>(())
//! ```
//!
//! | datum type | dtype | to tensors: [`TractExt`] | from tensors: [`TensorExt`] |
//! | --- | --- | --- | --- |
//! | `I8`, `I16`, `I32`, `I64` | `int8` to `int64` | zero-copy, view | copy |
//! | `U8`, `U16`, `U32`, `U64` | `uint8` to `uint64` | zero-copy, view | copy |
//! | `F16`, `F32`, `F64` | `float16` to `float64` | zero-copy, view | copy |
//! | `Bool` | `bool` | zero-copy, read-only; view | copy |
//! | `ComplexF16`, `ComplexF32`, `ComplexF64`, with the feature `complex` | `complex32` to `complex128` | zero-copy, view | copy |
//! | `QI8`, `QU8`, `QI32` | | refused: a dtype lacks a scale | |
//! | `ComplexI16`, `ComplexI32`, `ComplexI64` | | refused: DLPack lacks them | |
//! | `TDim`, `String`, `Blob` | | refused: not numbers | |
//! | | `bfloat16`, floats of fewer bits, 128-bit integers | | refused |
//!
//! A tensor that was made of one of tract becomes that one again, without a copy, unless it is a slice of it.
//!
//! # Limits of tract
//!
//! - Tract frees its memory itself, with Rust's allocator, so it can neither own nor view foreign memory: a
//!   tensor is copied once.
//! - Tract keeps some tensors outside of plain memory: packed for a kernel, or on a device. Those are refused;
//!   tract's `into_plain_ram` converts some of them.
//! - Its tensors are in C order. The copy accepts other strides.

mod convert;
mod error;

pub use convert::{TensorExt, TractExt};
pub use error::{Error, Result};

/// Keeps the extension traits closed, so that methods can be added.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
