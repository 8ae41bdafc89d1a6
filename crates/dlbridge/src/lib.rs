//! Tensors from any library to any other, without a copy.
//!
//! DLPack is the C ABI by which tensor libraries lend each other memory. This crate is one safe,
//! owning [`Tensor`] over it: any Rust container goes in, any DLPack consumer takes what comes out,
//! and what a C producer lends is validated once and then read through typed views.
//!
//! ```
//! use dlbridge::Tensor;
//!
//! let t = Tensor::from(vec![1.0_f32, 2.0, 3.0]);          // owns the vector: one allocation
//! let sum: f32 = t.view::<f32>()?.iter().sum();           // dtype, device, alignment: checked once
//! let managed = t.into_raw();                             // *mut DLManagedTensorVersioned, for C
//! // SAFETY: just made, and given to nobody else.
//! let t = unsafe { Tensor::from_raw(managed)? };          // validated; on Err the deleter has run
//! assert_eq!(t.try_into_owner::<Vec<f32>>().unwrap(), [1.0, 2.0, 3.0]);
//! # assert_eq!(sum, 6.0);
//! # Ok::<(), dlbridge::Error>(())
//! ```
//!
//! # The model
//!
//! ```text
//!   owner (Vec, Array, file map, ...) or a C producer
//!     |  moves in, once                       what C sees                    shape, strides
//!     v                                            v                               v
//!   Tensor ----> [ DLManagedTensorVersioned | header | owner ......... | extents | strides ]
//!     |  one pointer, one allocation                       |  keeps alive
//!     |                                                    v
//!     |  view::<T>()                            [ element | element | element | ... ]
//!     +-----------> TensorView<'_, T>  -------------^  any strides, in elements
//!     +-----------> TensorRef<'_>      -------------^  any dtype; a DLTensor for C kernels
//! ```
//!
//! - A [`Tensor`] owns: a Rust value, or what a producer lent. It was validated when it was made, so
//!   its description is right: [`shape`](Tensor::shape), [`strides`](Tensor::strides),
//!   [`dtype`](Tensor::dtype), [`device`](Tensor::device). Dropping it drops the owner, or calls the
//!   producer's deleter, once.
//! - A [`TensorView`] borrows elements of a Rust type. Dtype, device, alignment and bits are checked
//!   when it is made, and never again. A [`TensorRef`] borrows elements of any dtype.
//! - All of them can be sliced, transposed, reshaped, turned round ([`slice`](Tensor::slice),
//!   [`transpose`](Tensor::transpose), [`reshape`](Tensor::reshape), [`flip`](Tensor::flip), ...)
//!   without a copy. What copies says so: `to_` in front, or a [`CopyReason`] beside the result.
//! - [`Tensor::into_raw`] gives a tensor to C, [`Tensor::lend`] lends it, as often as you like;
//!   [`Tensor::from_raw`] takes one. What comes home is recognised:
//!   [`try_into_owner`](Tensor::try_into_owner) gives the very `Vec` back.
//!
//! # Where things are
//!
//! | | |
//! | --- | --- |
//! | [`Tensor`] | owns memory: made of Rust containers, taken from C, given to C |
//! | [`TensorView`], [`TensorViewMut`] | typed, borrowed, any strides |
//! | [`TensorRef`], [`TensorRefMut`] | of any dtype, borrowed; a `DLTensor` for the length of a call |
//! | [`DataType`], [`Device`], [`Access`] | what the elements are, where, and who may use them |
//! | [`Element`], [`Items`], [`Owner`] | the Rust types that fit |
//! | [`SubbyteView`], [`SubbyteViewMut`] | elements narrower than a byte, packed or padded |
//! | [`Unaligned`] | elements at any address, in either byte order |
//! | [`TensorSlice`], [`TensorSliceMut`] | a tensor that derefs to a slice, for libraries that adopt containers |
//! | [`CopyReason`] | why something was copied |
//! | [`Error`] | what was wrong, the value found, what to do |
//! | [`sys`] | the C ABI |
//!
//! # Who may write
//!
//! A tensor made of a uniquely owned value is [`Access::Exclusive`]; one made of shared data is
//! [`Access::ReadOnly`]; one that a producer lends without a flag is [`Access::Shared`]: it can be
//! read, and written only by who knows that nobody else does ([`Tensor::assume_exclusive`]).
//! The unsafe doors in are [`Tensor::from_raw`] and its twins: their contract is that of the
//! specification.
//! `docs/safety.md` in the repository has the whole trust model.
//!
//! # Features
//!
//! - `std` (default): a panic in an owner's drop is caught in the deleter; large copies are made by
//!   several threads. Without it the crate is `no_std` with `alloc`, and such a panic aborts.
//! - `half`: `f16` and `bf16` of half 2 as elements.
//! - `microfloat`: the floats of eight, six and four bits of microfloat 0.1 as elements.
//! - `num-complex`: complex numbers of num-complex 0.4 as elements.
//! - `bytes`: `Bytes` and `BytesMut` of bytes 1 out as owners; `Bytes` over the tensor itself.
//! - `memmap2`: maps of files, of memmap2 0.9, out as owners; turns `std` on.
//! - `safetensors`: files of tensors, read without a copy, and written; turns `std` on.
//! - `ndarray`: arrays of ndarray 0.17 out as owners, in as views.
//! - `image`: buffers of image 0.25 out as height × width × channels, in as views and over the
//!   tensor itself.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub use dlbridge_sys as sys;

mod adapters;
mod convert;
mod device;
mod dtype;
mod error;
mod export;
mod layout;
#[cfg(doctest)]
mod must_not_compile;
mod part;
mod raw;
mod subbyte;
mod tensor;
mod tensor_ref;
mod view;

pub use convert::CopyReason;
pub use device::{Device, DeviceType};
pub use dtype::{DataType, DataTypeCode};
pub use error::{Error, Result};
pub use layout::MAX_NDIM;
pub use raw::{
    Access, DLTensorRef, Element, Items, Iter, IterMut, Owner, RawParts, SubbyteView,
    SubbyteViewMut, TensorRef, TensorRefMut, TensorSlice, TensorSliceMut, TensorView,
    TensorViewMut, Unaligned,
};
pub use tensor::Tensor;

#[cfg(feature = "safetensors")]
pub use adapters::safetensors;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "ndarray", feature = "image", feature = "safetensors"))]
#[doc = include_str!("../../../README.md")]
struct ProjectReadme;
