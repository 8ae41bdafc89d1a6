//! [rten_tensor] 0.27: tensors and views of rten to tensors of dlbridge and back, without a copy.
//!
//! ```
//! use dlbridge::Tensor;
//! use dlbridge_rten::TensorExt;
//! use rten_tensor::prelude::*;
//!
//! let columns = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]).transpose();
//! let address = columns.data().addr();
//! let rten = columns.into_rten::<f32>()?;              // keeps the tensor alive, and reads it in place
//! assert_eq!(rten.data_ptr().addr(), address);
//! assert_eq!(rten.to_vec(), [1.0, 3.0, 2.0, 4.0]);
//! # Ok::<(), dlbridge::Error>(())
//! ```
//!
//! | | elements | zero-copy | view | copy |
//! | --- | --- | --- | --- | --- |
//! | to tensors: [`Tensor<T>`], [`NdTensor<T, N>`] | every [`Element`]; those with a [check], such as `bool`, only borrowed | [`RtenExt::into_tensor`] | [`RtenRefExt::as_tensor_ref`] | |
//! | to tensors: [`ArcTensor<T>`], [`ArcNdTensor<T, N>`] | every [`Element`] | [`RtenExt::into_tensor`], read-only | [`RtenRefExt::as_tensor_ref`] | |
//! | to tensors: views, and tensors over any other storage | every [`Element`] | | [`RtenRefExt::as_tensor_ref`] | |
//! | from tensors: [`TensorBase`] over the tensor itself | every [`Element`] without a [check] | [`TensorExt::into_rten`], [`TensorExt::into_rten_mut`] | | |
//! | from tensors: [`Tensor<T>`] | every [`Element`] | a tensor that was made of one: [`try_into_owner`] | | [`TensorExt::to_rten`] |
//! | from tensors: [`TensorView`] and [`TensorViewMut`] | every [`Element`] | | [`TensorViewExt::as_rten`], [`TensorViewMutExt::into_rten_mut`] | |
//!
//! Tensors keep any strides of rten. The other direction accepts dimensions in any order, and repeated elements if no
//! code writes them; `to_rten` copies tensors with gaps between the elements or negative strides.
//!
//! # Write access
//!
//! A tensor of rten keeps slices of the memory. So [`into_rten`](TensorExt::into_rten) accepts a tensor that no other
//! code can write ([`Exclusive`](dlbridge::Access::Exclusive) or [`Immutable`](dlbridge::Access::Immutable)), and
//! refuses others with [`Unstable`](dlbridge::Error::Unstable): a [`Shared`](dlbridge::Access::Shared) tensor, as
//! most producers export, and a [`ReadOnly`](dlbridge::Access::ReadOnly) one, also after
//! [`into_read_only`](dlbridge::Tensor::into_read_only), because its producer may write.
//!
//! Copy a refused tensor with `to_…`. Make an exclusive tensor immutable with
//! [`try_into_immutable`](dlbridge::Tensor::try_into_immutable) before you [share](dlbridge::ArcTensor::share) it. If
//! you know that no code writes the memory, promise it with the unsafe
//! [`assume_immutable`](dlbridge::Tensor::assume_immutable).
//!
//! # Limits of rten
//!
//! - Rten lacks negative strides.
//! - Safe code can lay another shape over all memory of a tensor of rten, from its first element to its last. So rten
//!   gets no foreign memory with gaps between the elements, although its strides could skip them: the gaps may be
//!   uninitialised, or other code may write them.
//! - A [`Tensor<T>`], and the functions that take one, can only own a vector. A tensor of rten over foreign memory is
//!   a [`TensorBase`] instead; its views are of the same types as those of every tensor of rten.
//! - Rten does not return a storage. So each round trip with another layout adds an owner, and the memory of all of
//!   them stays until the last one is dropped. Copy the tensor now and then. The drop itself needs no deep stack.
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

/// Keeps the extension traits closed, so that methods can be added.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
