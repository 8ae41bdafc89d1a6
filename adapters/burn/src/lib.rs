//! [burn](burn_tensor) 0.22, Flex backend: tensors out and in without a copy, strides included.
//!
//! ```
//! use burn_tensor::{Device, Tensor as Burn};
//! use dlbridge_burn::{BurnExt, TensorExt};
//!
//! let burn = Burn::<2>::from_floats([[1.0, 2.0], [3.0, 4.0]], &Device::flex()).transpose();
//! let tensor = burn.into_tensor()?;                       // the same memory, for any DLPack consumer
//! assert_eq!((tensor.strides(), tensor.view::<f32>()?.to_vec()), (&[1, 2][..], vec![1.0, 3.0, 2.0, 4.0]));
//!
//! let rows = dlbridge::Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]).flip(0)?;
//! let burn: Burn<2> = rows.into_burn()?;                  // a stride of -2, and still the same memory
//! assert_eq!(burn.sum().into_scalar::<f32>(), 10.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`BurnExt`] | tensors of burn into tensors |
//! | [`TensorExt`] | tensors into tensors of burn, or copied |
//!
//! # Directions
//!
//! | from | to | |
//! | --- | --- | --- |
//! | [`FlexTensor`], burn's `Tensor` | [`Tensor`](dlbridge::Tensor) | zero-copy, any strides; exclusive if nobody shares its bytes, else read-only |
//! | a tensor that came from burn, or a part of it | burn | zero-copy, any strides |
//! | a `Vec<T>` or `Box<[T]>` of the core, or a part of it | burn | zero-copy, any strides: the vector moves |
//! | exclusive memory of any other owner, without gaps | burn | zero-copy, any strides; burn writes in place |
//! | [immutable](dlbridge::Access::Immutable) memory, without gaps | burn | zero-copy, any strides; burn copies when it wants to write |
//! | memory that others may write ([`Shared`](dlbridge::Access::Shared), [`ReadOnly`](dlbridge::Access::ReadOnly)) | burn | [refused](dlbridge::Error::Unstable) |
//! | anything, by [`to_flex`](TensorExt::to_flex) | burn | one copy |
//!
//! | burn | DLPack |
//! | --- | --- |
//! | `F16`, `BF16`, `F32`, `F64` | `float16`, `bfloat16`, `float32`, `float64` |
//! | `I8`, `I16`, `I32`, `I64` | `int8`, `int16`, `int32`, `int64` |
//! | `U8`, `U16`, `U32`, `U64` | `uint8`, `uint16`, `uint32`, `uint64` |
//! | `Bool` in a byte | `bool`, read-only |
//! | `Bool` in 32 bits, `Flex32`, quantised floats | refused by name |
//!
//! Every other dtype is refused by name.
//!
//! # Who may write
//!
//! Burn keeps slices of the memory. So [`into_flex`](TensorExt::into_flex) accepts memory that nobody else can write
//! ([`Exclusive`](dlbridge::Access::Exclusive) or [`Immutable`](dlbridge::Access::Immutable)), and refuses others with
//! [`Unstable`](dlbridge::Error::Unstable): a [`Shared`](dlbridge::Access::Shared) tensor, as most producers lend it, and a
//! [`ReadOnly`](dlbridge::Access::ReadOnly) one, also after [`into_read_only`](dlbridge::Tensor::into_read_only), whose producer may write.
//!
//! Copy a refused tensor with [`to_flex`](TensorExt::to_flex); [`try_into_immutable`](dlbridge::Tensor::try_into_immutable) makes an exclusive tensor immutable before
//! it is [shared](dlbridge::Tensor::share); and if you know that nobody writes, promise it with the unsafe
//! [`assume_immutable`](dlbridge::Tensor::assume_immutable).
//!
//! # What the library cannot do
//!
//! - Burn hands the bytes of a storage out as one slice, from the lowest to the highest. So memory of a foreign owner must
//!   not have gaps between its elements, which may be somebody else's; and elements must be aligned. What has gaps, or lies
//!   at odd addresses, is refused, and copied by [`to_flex`](TensorExt::to_flex).
//! - Have complex elements, or floats of eight bits.
//! - Give foreign memory to other backends than Flex: bring tensors to it first.
//!
//! [`FlexTensor`]: burn_flex::FlexTensor

mod dtype;
mod error;
mod export;
mod held;
mod import;
mod kind;
mod part;

pub use error::{Error, Result};
pub use export::BurnExt;
pub use import::TensorExt;
pub use kind::FlexKind;

/// Keeps the extension traits closed, so that they can grow.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
