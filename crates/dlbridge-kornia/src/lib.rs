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
//! What keeps a tensor alive hands its memory out as slices, at any time. So a tensor whose data somebody else may write
//! ([`Access::Shared`](dlbridge::Access::Shared), as most producers lend it) is
//! [refused](TensorExt::into_kornia), until [`into_read_only`](dlbridge::Tensor::into_read_only) says that nobody does, or it is
//! copied.
//!
//! [`into_read_only`](dlbridge::Tensor::into_read_only), [`share`](dlbridge::Tensor::share) and
//! [`share_bytes`](dlbridge::Tensor::share_bytes) mark as read-only what others may still write, and nobody can see
//! it any more. So whoever calls one of them on a shared tensor gives his word that nobody writes the data while kornia
//! holds it, just as while a view of the tensor is alive.
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
//!   dimensions each time, keeps one more owner with every turn, which are dropped one within the other: thousands of them can
//!   take a thread's stack. Copy it now and then.
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
