//! [candle] 0.11: tensors of candle without a copy, and tensors to candle with at most one copy.
//!
//! ```
//! use candle_core::{Device, Tensor};
//! use dlbridge_candle::{CandleExt, TensorExt};
//!
//! let weights = Tensor::arange(0_f32, 6.0, &Device::Cpu)?.reshape((2, 3))?;
//! let tensor = weights.t()?.into_tensor()?;               // the same memory, for any DLPack consumer
//! assert_eq!((tensor.shape(), tensor.strides()), (&[3, 2][..], &[1, 3][..]));
//! let weights = tensor.into_candle()?;                    // the same tensor again
//! assert_eq!(weights.sum_all()?.to_scalar::<f32>()?, 15.0);
//!
//! let rows = dlbridge::Tensor::from_parts(vec![1_i64, 2, 3, 4], [2, 2])?.into_candle()?; // moved
//! assert_eq!(rows.to_vec2::<i64>()?, [[1, 2], [3, 4]]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`CandleExt`] | tensors of candle to tensors |
//! | [`TensorExt`] | tensors to tensors of candle, moved or copied |
//! | [`TensorRefExt`] | borrowed tensors, copied to tensors of candle |
//!
//! # Directions
//!
//! | from | to | dtype | |
//! | --- | --- | --- | --- |
//! | candle, on the CPU | [`Tensor`](dlbridge::Tensor) | all in the table below | zero-copy, any strides of candle, read-only |
//! | a tensor that came from candle | candle | any | zero-copy: the same tensor of candle |
//! | a slice of such a tensor | candle | any | one copy |
//! | `Vec<T>` or `Box<[T]>` of dlbridge, contiguous in C order, also sliced | candle | those of a Rust type | zero-copy: the vector moves |
//! | anything else that the CPU can read, with any strides and alignment | candle | any | one copy |
//!
//! | candle | DLPack | |
//! | --- | --- | --- |
//! | `U8`, `U32` | `uint8`, `uint32` | |
//! | `I16`, `I32`, `I64` | `int16`, `int32`, `int64` | |
//! | `F16`, `BF16`, `F32`, `F64` | `float16`, `bfloat16`, `float32`, `float64` | |
//! | `F8E4M3` | `float8_e4m3fn` | no infinities, and 448 is the largest: not DLPack's `float8_e4m3` |
//! | `F8E8M0` | `float8_e8m0fnu` | bytes; candle does not compute with them |
//! | `F4`, `F6E2M3`, `F6E3M2` | | refused: candle stores bytes without a documented layout |
//!
//! Other dtypes are refused by name.
//!
//! # A tensor holds the lock
//!
//! A lock guards the storage of a tensor of candle. Clones and views share the storage, and safe code may write it in
//! place: `Var::set`, `zero_set`, an optimiser, or any `InplaceOp1`, which may also replace it. So a tensor made of
//! it, and everything made of that tensor without a copy, holds the lock for reading until it is dropped, on whatever
//! thread. **In-place writers wait.** Meanwhile:
//!
//! - candle's operations that only read, such as `matmul` and `to_vec1`, continue;
//! - code that takes the lock anew waits behind a waiting writer, so that writers get their turn. These calls take
//!   it: [`into_tensor`](CandleExt::into_tensor) and [`into_tensor_unlocked`](CandleExt::into_tensor_unlocked) of any
//!   tensor with that storage; [`into_candle`](TensorExt::into_candle) of an unlocked tensor; candle's
//!   `storage_and_layout`; and `Var::set`, which reads its argument so. Candle gives no other access to the lock.
//!
//! A waiting call never returns if it waits on the thread that would drop the tensor. To write meanwhile, copy the
//! tensor ([`Tensor::to_copy`](dlbridge::Tensor::to_copy)), or promise by hand what the lock ensures
//! ([`CandleExt::into_tensor_unlocked`]). To get several tensors of one storage, make them before any code writes, or
//! share one ([`ArcTensor::share`](dlbridge::ArcTensor::share)).
//!
//! The feature `send_guard` of parking_lot, which lets a thread release a lock that another took, is on for the whole
//! program; with parking_lot's `deadlock_detection` it does not compile.
//!
//! While gradients are tracked, a tensor of candle keeps its inputs alive: `detach` it first to release them.
//!
//! # Limits of candle
//!
//! - Candle adopts no memory other than a `Vec`, so everything else is copied once.
//! - It lacks `bool`, `int8`, `uint16`, `uint64`, complex elements, and negative strides.
//! - It does not show whether a tensor is the only one with its storage, so an exported tensor is never exclusive.
//! - This crate uses candle without features. Tensors on CUDA or Metal are refused: move them to the CPU first. Tests
//!   do not cover this, because candle needs a device to make such tensors.
//!
//! [candle]: candle_core

mod dtype;
mod error;
mod export;
mod import;

pub use error::{Error, Result};
pub use export::CandleExt;
pub use import::{TensorExt, TensorRefExt};

/// Keeps the extension traits closed, so that methods can be added.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
