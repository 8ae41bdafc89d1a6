//! [candle] 0.11: tensors out without a copy, and in with one copy at most.
//!
//! ```
//! use candle_core::{Device, Tensor};
//! use dlbridge_candle::{CandleExt, TensorExt};
//!
//! let weights = Tensor::arange(0_f32, 6.0, &Device::Cpu)?.reshape((2, 3))?;
//! let tensor = weights.t()?.into_tensor()?;               // the same memory, for any DLPack consumer
//! assert_eq!((tensor.shape(), tensor.strides()), (&[3, 2][..], &[1, 3][..]));
//! let weights = tensor.into_candle()?;                    // the very tensor again
//! assert_eq!(weights.sum_all()?.to_scalar::<f32>()?, 15.0);
//!
//! let rows = dlbridge::Tensor::from_parts(vec![1_i64, 2, 3, 4], [2, 2])?.into_candle()?; // moved
//! assert_eq!(rows.to_vec2::<i64>()?, [[1, 2], [3, 4]]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`CandleExt`] | tensors of candle into tensors |
//! | [`TensorExt`] | tensors into tensors of candle, or copied |
//! | [`TensorRefExt`] | borrowed tensors copied into tensors of candle |
//!
//! # Directions
//!
//! | from | to | dtype | |
//! | --- | --- | --- | --- |
//! | candle, on the CPU | [`Tensor`](dlbridge::Tensor) | any of the table below | zero-copy, any strides of candle, read-only |
//! | a tensor that came from candle | candle | any | zero-copy: the same tensor of candle |
//! | a part of such a tensor | candle | any | one copy |
//! | `Vec<T>` or `Box<[T]>` of the core, adjacent in C order, also a part of it | candle | those of a Rust type | zero-copy: the vector moves |
//! | anything else that the CPU can read, with any strides, at any address | candle | any | one copy |
//!
//! | candle | DLPack | |
//! | --- | --- | --- |
//! | `U8`, `U32` | `uint8`, `uint32` | |
//! | `I16`, `I32`, `I64` | `int16`, `int32`, `int64` | |
//! | `F16`, `BF16`, `F32`, `F64` | `float16`, `bfloat16`, `float32`, `float64` | |
//! | `F8E4M3` | `float8_e4m3fn` | no infinities, and 448 is the largest: not DLPack's `float8_e4m3` |
//! | `F8E8M0` | `float8_e8m0fnu` | bytes, with which candle does not compute |
//! | `F4`, `F6E2M3`, `F6E3M2` | | refused: candle keeps bytes and does not say how elements lie in them |
//!
//! Every other dtype is refused by name.
//!
//! # A tensor holds the lock
//!
//! The storage of a tensor of candle is behind a lock, is shared by its clones and views, and may be written in
//! place: by `Var::set`, by `zero_set`, by an optimiser, by any `InplaceOp1`, which may also replace it.
//! So a tensor made of it holds that lock for reading until it is dropped, wherever that is, and so do all that are made
//! of it without a copy. **What writes in place waits.** Meanwhile:
//!
//! - candle's operations that only read, such as `matmul` and `to_vec1`, go on;
//! - what takes the lock anew, for however short a time, waits behind a writer that waits, so that writers have their
//!   turn. That is [`into_tensor`](CandleExt::into_tensor), and [`into_tensor_unlocked`](CandleExt::into_tensor_unlocked)
//!   too, of any tensor with that storage; [`into_candle`](TensorExt::into_candle) of an unlocked tensor;
//!   candle's `storage_and_layout`; and `Var::set`, which reads its argument so. Candle offers no other door to the lock.
//!
//! What waits does so for ever in the thread that would drop the tensor. Who needs to write meanwhile copies the tensor
//! ([`Tensor::to_copy`](dlbridge::Tensor::to_copy)), or promises what the lock would
//! ([`CandleExt::into_tensor_unlocked`]). Who makes several tensors of one storage makes them before anybody writes, or
//! shares one ([`Tensor::share`](dlbridge::Tensor::share)).
//!
//! The feature `send_guard` of parking_lot, which lets a lock be released on another thread, is on for the whole
//! program; with parking_lot's `deadlock_detection` it does not compile.
//!
//! A tensor of candle keeps what it was computed from while gradients are tracked: `detach` it first, if that is not to live as long.
//!
//! # What the library cannot do
//!
//! - Adopt memory that is not a `Vec`: so what comes from elsewhere is copied, once.
//! - Have `bool`, `int8`, `uint16`, `uint64`, or complex elements, or negative strides.
//! - Say whether a tensor is the only one with its storage: so none that comes out is exclusive.
//! - This crate takes candle without features. Tensors on CUDA or Metal are refused: bring them to the CPU first. That is
//!   untested: candle has such tensors only where there is a device.
//!
//! [candle]: candle_core

mod dtype;
mod error;
mod export;
mod import;
mod locked;

pub use error::{Error, Result};
pub use export::CandleExt;
pub use import::{TensorExt, TensorRefExt};

/// Keeps the extension traits closed, so that they can grow.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
