//! [kornia_tensor] and [kornia_image] 0.2: tensors and images as tensors of dlbridge, and back, without a copy.
//!
//! ```
//! use dlbridge::Tensor;
//! use dlbridge_kornia::{KorniaExt, TensorExt};
//!
//! let tensor = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
//! let address = tensor.data().addr();
//! let kornia = tensor.into_kornia::<f32, 2>()?;        // keeps the tensor alive, and reads it where it is
//! assert_eq!(kornia.as_ptr().addr(), address);
//! let tensor = kornia.into_tensor()?;                  // for any DLPack consumer
//! assert_eq!(tensor.data().addr(), address);
//! # Ok::<(), dlbridge::Error>(())
//! ```
//!
//! | | elements | out: [`KorniaExt`] | in: `into_…` of [`TensorExt`] | in: `to_…` |
//! | --- | --- | --- | --- | --- |
//! | [`kornia_tensor::Tensor<T, N>`] | every [`Element`](dlbridge::Element) but those below | zero-copy | zero-copy | copy |
//! | the same, of `bool` and other elements with a [check](dlbridge::Element::CHECK) | | zero-copy, read-only alone | does not compile | copy |
//! | [`kornia_image::Image<T, C>`], height × width × channels | as above | as above | as above | as above |
//!
//! Out, any strides are kept; in, the elements have to be adjacent in C order, or are copied. A tensor
//! that was made of one of kornia's goes back as the same one.
//!
//! # Who may write
//!
//! A tensor of kornia keeps slices of the memory. So [`into_kornia`](TensorExt::into_kornia) accepts a tensor that nobody else can write
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
//! - What it calls unified memory may be pinned, managed or mapped, and it gives out slices of all of them. So a tensor of it
//!   is on the CPU; whoever has a kernel write that memory waits for it before any of the two is read.
//! - It has no way to ask whether memory is read-only: writing such memory panics. So
//!   [`into_tensor`](KorniaExt::into_tensor) panics for it, too, and
//!   [`into_read_only_tensor`](KorniaExt::into_read_only_tensor) takes any.
//! - Most of its functions go through all elements of the memory, whatever the strides say. So it
//!   gets no memory with gaps between the elements, although its type could say so.
//! - It has no view of memory that it does not keep alive: what is borrowed has to be copied.
//! - It does not give back what keeps its memory alive. So a tensor that goes in and out again and again, with another number of
//!   dimensions each time, keeps one more owner with every turn. Their memory stays until the last one is dropped; copy the tensor
//!   now and then. The drop itself needs no deep stack.
//! - Its `into_vec` panics for memory that is not of its own; `as_slice().to_vec()` copies it.

mod export;
mod import;

pub use export::KorniaExt;
pub use import::TensorExt;

/// Keeps the extension traits closed, so that they can grow.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
