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
//! # Where things are
//!
//! | | |
//! | --- | --- |
//! | [`Tensor`] | owns memory: made of Rust containers, taken from C, given to C |
//! | [`TensorView`], [`TensorViewMut`] | typed, borrowed, any strides |
//! | [`DataType`], [`Device`], [`Access`] | what the elements are, where, and who may use them |
//! | [`Element`], [`Items`], [`Owner`] | the Rust types that fit |
//! | [`TensorSlice`], [`TensorSliceMut`] | a tensor that derefs to a slice, for libraries that adopt containers |
//! | [`Error`] | what was wrong, the value found, what to do |
//! | [`sys`] | the C ABI |
//!
//! # Who may write
//!
//! A tensor made of a uniquely owned value is [`Access::Exclusive`]; one made of shared data is
//! [`Access::ReadOnly`]; one that a producer lends without a flag is [`Access::Shared`]: it can be
//! read, and written only by who knows that nobody else does ([`Tensor::assume_exclusive`]).
//! [`Tensor::from_raw`] is the one unsafe door in; its contract is that of the specification.
//!
//! # Features
//!
//! - `std` (default): a panic in an owner's drop is caught in the deleter. Without it the crate is
//!   `no_std` with `alloc`, and such a panic aborts.
//! - `half`: `f16` and `bf16` of half 2 as elements.
//! - `num-complex`: complex numbers of num-complex 0.4 as elements.
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
mod part;
mod raw;
mod tensor;
mod tensor_ref;
mod view;

pub use convert::CopyReason;
pub use device::{Device, DeviceType};
pub use dtype::{DataType, DataTypeCode};
pub use error::{Error, Result};
pub use layout::MAX_NDIM;
pub use raw::{
    Access, Element, Items, Iter, IterMut, Owner, RawParts, TensorRef, TensorRefMut, TensorSlice,
    TensorSliceMut, TensorView, TensorViewMut, Unaligned,
};
pub use tensor::Tensor;

#[cfg(doctest)]
mod must_not_compile;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "ndarray"))]
#[doc = include_str!("../../../README.md")]
struct ProjectReadme;
