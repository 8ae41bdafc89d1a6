//! [rten_tensor] 0.27: tensors and views of rten as tensors of dlbridge, and back, without a copy.
//!
//! ```
//! use dlbridge::Tensor;
//! use dlbridge_rten::TensorExt;
//! use rten_tensor::prelude::*;
//!
//! let columns = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]).transpose();
//! let address = columns.data().addr();
//! let rten = columns.into_rten::<f32>()?;              // keeps the tensor alive, and reads it where it is
//! assert_eq!(rten.data_ptr().addr(), address);
//! assert_eq!(rten.to_vec(), [1.0, 3.0, 2.0, 4.0]);
//! # Ok::<(), dlbridge::Error>(())
//! ```
//!
//! | | elements | zero-copy | view | copy |
//! | --- | --- | --- | --- | --- |
//! | [`Tensor<T>`], [`NdTensor<T, N>`] out | every [`Element`]; those with a [check], such as `bool`, borrowed alone | [`RtenExt::into_tensor`] | [`RtenRefExt::as_tensor_ref`] | |
//! | [`ArcTensor<T>`], [`ArcNdTensor<T, N>`] out | every [`Element`] | [`RtenExt::into_tensor`], read-only | [`RtenRefExt::as_tensor_ref`] | |
//! | views of rten, and any other storage, out | every [`Element`] | | [`RtenRefExt::as_tensor_ref`] | |
//! | [`TensorBase`] over the tensor itself, in | every [`Element`] without a [check] | [`TensorExt::into_rten`], [`TensorExt::into_rten_mut`] | | |
//! | [`Tensor<T>`] in | every [`Element`] | what was made of one: [`try_into_owner`] | | [`TensorExt::to_rten`] |
//! | [`TensorView`] and [`TensorViewMut`] of rten in | every [`Element`] | | [`TensorViewExt::as_rten`], [`TensorViewMutExt::into_rten_mut`] | |
//!
//! Out, any strides are kept. In, the axes may be in any order and repeat elements, where nobody writes
//! them; what has gaps between the elements, or negative strides, is copied by `to_rten`.
//!
//! # Who may write
//!
//! A tensor of rten keeps slices of the memory. So [`into_rten`](TensorExt::into_rten) accepts a tensor that nobody else can write
//! ([`Exclusive`](dlbridge::Access::Exclusive) or [`Immutable`](dlbridge::Access::Immutable)), and refuses others with
//! [`Unstable`](dlbridge::Error::Unstable): a [`Shared`](dlbridge::Access::Shared) tensor, as most producers lend it, and a
//! [`ReadOnly`](dlbridge::Access::ReadOnly) one, also after [`into_read_only`](dlbridge::Tensor::into_read_only), whose producer may write.
//!
//! Copy a refused tensor with `to_…`; [`try_into_immutable`](dlbridge::Tensor::try_into_immutable) makes an exclusive tensor immutable before
//! it is [shared](dlbridge::Tensor::share); and if you know that nobody writes, promise it with the unsafe
//! [`assume_immutable`](dlbridge::Tensor::assume_immutable).
//!
//! # What the library cannot do
//!
//! - It has no negative strides.
//! - It lets safe code lay another shape over all memory of a tensor, from its first element to its
//!   last. So it gets no memory of others with gaps between the elements, though its strides could
//!   step over them: what is there may not be initialised, or be somebody else's to write.
//! - A vector is the only memory that its [`Tensor<T>`] and the functions that take one can own. What
//!   keeps a tensor of others alive is a [`TensorBase`], whose views are those that all others have.
//! - It does not give a storage back. So a tensor that goes in and out again and again, in another layout each time, keeps one
//!   more owner with every turn. Their memory stays until the last one is dropped; copy the tensor now and then. The drop itself
//!   needs no deep stack.
//! - Operators of rten take f32, i32, i8 and u8; tensors may have any elements.
//!
//! [`Element`]: dlbridge::Element
//! [check]: dlbridge::Element::CHECK
//! [`try_into_owner`]: dlbridge::Tensor::try_into_owner
//! [`Tensor<T>`]: rten_tensor::Tensor
//! [`NdTensor<T, N>`]: rten_tensor::NdTensor
//! [`ArcTensor<T>`]: rten_tensor::ArcTensor
//! [`ArcNdTensor<T, N>`]: rten_tensor::ArcNdTensor
//! [`TensorBase`]: rten_tensor::TensorBase
//! [`TensorView`]: rten_tensor::TensorView
//! [`TensorViewMut`]: rten_tensor::TensorViewMut

mod export;
mod import;
mod storage;

pub use export::{RtenExt, RtenRefExt};
pub use import::{TensorExt, TensorViewExt, TensorViewMutExt};
pub use storage::{TensorStorage, TensorStorageMut};

/// Keeps the extension traits closed, so that they can grow.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
