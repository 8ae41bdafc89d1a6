//! [kornia_tensor] and [kornia_image] 0.2: tensors and images of kornia to tensors of dlbridge and back, without a
//! copy.
//!
//! ```
//! use dlbridge::Tensor;
//! use dlbridge_kornia::{KorniaExt, TensorExt};
//!
//! let tensor = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
//! let address = tensor.data().addr();
//! let kornia = tensor.into_kornia::<f32, 2>()?;        // keeps the tensor alive, and reads it in place
//! assert_eq!(kornia.as_ptr().addr(), address);
//! let tensor = kornia.into_tensor()?;                  // for any DLPack consumer
//! assert_eq!(tensor.data().addr(), address);
//! # Ok::<(), dlbridge::Error>(())
//! ```
//!
//! | | elements | to tensors: [`KorniaExt`] | from tensors: `into_…` of [`TensorExt`] | from tensors: `to_…` |
//! | --- | --- | --- | --- | --- |
//! | [`kornia_tensor::Tensor<T, N>`] | every [`Element`](dlbridge::Element) except those below | zero-copy | zero-copy | copy |
//! | the same, of `bool` and other elements with a [check](dlbridge::Element::CHECK) | | zero-copy, read-only | does not compile | copy |
//! | [`kornia_image::Image<T, C>`], height × width × channels | as above | as above | as above | as above |
//!
//! A tensor made of one of kornia keeps any strides. The other direction needs elements that are contiguous in C
//! order, or copies them. A tensor that was made of one of kornia becomes the same one again.
//!
//! # Write access
//!
//! A tensor of kornia keeps slices of the memory. So [`into_kornia`](TensorExt::into_kornia) accepts a tensor that no
//! other code can write ([`Exclusive`](dlbridge::Access::Exclusive) or [`Immutable`](dlbridge::Access::Immutable)),
//! and refuses others with [`Unstable`](dlbridge::Error::Unstable): a [`Shared`](dlbridge::Access::Shared) tensor, as
//! most producers export, and a [`ReadOnly`](dlbridge::Access::ReadOnly) one, also after
//! [`into_read_only`](dlbridge::Tensor::into_read_only), because its producer may write.
//!
//! Copy a refused tensor with `to_…`. Make an exclusive tensor immutable with
//! [`try_into_immutable`](dlbridge::Tensor::try_into_immutable) before you [share](dlbridge::ArcTensor::share) it. If
//! you know that no code writes the memory, promise it with the unsafe
//! [`assume_immutable`](dlbridge::Tensor::assume_immutable).
//!
//! # Limits of kornia
//!
//! - Kornia's unified memory may be pinned, managed or mapped, and kornia returns slices of all of them. So a tensor
//!   of it is on the CPU. If a kernel writes that memory, the caller waits for the kernel before any code reads the
//!   tensor of kornia or the tensor made of it.
//! - Kornia does not show whether memory is read-only: writing such memory panics. So
//!   [`into_tensor`](KorniaExt::into_tensor) panics for it too, and
//!   [`into_read_only_tensor`](KorniaExt::into_read_only_tensor) takes any memory.
//! - Most of kornia's functions process all elements of the memory, and ignore the strides. So kornia gets no memory
//!   with gaps between the elements, although its type could describe it.
//! - Kornia lacks views of memory that it does not keep alive: borrowed tensors must be copied.
//! - Kornia does not return the owner of its memory. So each round trip with another number of dimensions adds an
//!   owner, and the memory of all of them stays until the last one is dropped. Copy the tensor now and then. The drop
//!   itself needs no deep stack.
//! - `into_vec` panics for foreign memory; `as_slice().to_vec()` copies it.

mod export;
mod import;

pub use export::KorniaExt;
pub use import::TensorExt;

/// Keeps the extension traits closed, so that methods can be added.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
