//! [burn](burn_tensor) 0.22, Flex backend: tensors of burn to tensors and back, without a copy, with strides.
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
//! | [`BurnExt`] | tensors of burn to tensors |
//! | [`TensorExt`] | tensors to tensors of burn, or copied |
//!
//! # Directions
//!
//! | from | to | |
//! | --- | --- | --- |
//! | [`FlexTensor`], burn's `Tensor` | [`Tensor`](dlbridge::Tensor) | zero-copy, any strides; exclusive if its bytes are not shared, else read-only |
//! | a tensor that came from burn, or a slice of it | burn | zero-copy, any strides |
//! | a `Vec<T>` or `Box<[T]>` of dlbridge, or a slice of it | burn | zero-copy, any strides: the vector moves |
//! | exclusive memory of any other owner, without gaps | burn | zero-copy, any strides; burn writes in place |
//! | [immutable](dlbridge::Access::Immutable) memory, without gaps | burn | zero-copy, any strides; burn copies before it writes |
//! | memory that other code may write ([`Shared`](dlbridge::Access::Shared), [`ReadOnly`](dlbridge::Access::ReadOnly)) | burn | [refused](dlbridge::Error::Unstable) |
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
//! Other dtypes are refused by name.
//!
//! # Write access
//!
//! Burn keeps slices of the memory. So [`into_flex`](TensorExt::into_flex) accepts memory that no other code can
//! write ([`Exclusive`](dlbridge::Access::Exclusive) or [`Immutable`](dlbridge::Access::Immutable)), and refuses
//! others with [`Unstable`](dlbridge::Error::Unstable): a [`Shared`](dlbridge::Access::Shared) tensor, as most
//! producers export, and a [`ReadOnly`](dlbridge::Access::ReadOnly) one, also after
//! [`into_read_only`](dlbridge::Tensor::into_read_only), because its producer may write.
//!
//! Copy a refused tensor with [`to_flex`](TensorExt::to_flex). Make an exclusive tensor immutable with
//! [`try_into_immutable`](dlbridge::Tensor::try_into_immutable) before you [share](dlbridge::ArcTensor::share) it. If
//! you know that no code writes the memory, promise it with the unsafe
//! [`assume_immutable`](dlbridge::Tensor::assume_immutable).
//!
//! # Limits of burn
//!
//! - Burn returns the bytes of a storage as one slice, from the lowest to the highest. So foreign memory must not
//!   have gaps between its elements, whose bytes other code may own, and elements must be aligned. Tensors with gaps
//!   or misaligned elements are refused; [`to_flex`](TensorExt::to_flex) copies them.
//! - Burn lacks complex elements, and floats of eight bits.
//! - Only the Flex backend adopts foreign memory: move tensors of other backends to it first.
//!
//! [`FlexTensor`]: burn_flex::FlexTensor

mod description;
mod error;
mod export;
mod import;
mod kind;

pub use error::{Error, Result};
pub use export::BurnExt;
pub use import::TensorExt;
pub use kind::FlexKind;

/// Keeps the extension traits closed, so that methods can be added.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
