//! Tensors from any library to any other, without a copy.
//!
//! DLPack is the C ABI through which tensor libraries share memory. This crate is one safe, owning [`Tensor`] over it.
//! You make a tensor of any Rust container, and any DLPack consumer imports it. The memory of a C producer is validated
//! once and then read through typed views.
//!
//! ```
//! use dlbridge::Tensor;
//!
//! let t = Tensor::from(vec![1.0_f32, 2.0, 3.0]);          // owns the vector: one allocation
//! let sum: f32 = t.view::<f32>()?.iter().sum();           // dtype, device, alignment: checked once
//! let managed = t.into_raw();                             // *mut DLManagedTensorVersioned, for C
//! // SAFETY: just made, and this is its only use.
//! let t = unsafe { Tensor::from_raw(managed)? };          // validated
//! assert_eq!(t.try_into_owner::<Vec<f32>>().unwrap(), [1.0, 2.0, 3.0]);
//! # assert_eq!(sum, 6.0);
//! # Ok::<(), dlbridge::Error>(())
//! ```
//!
//! # The model
//!
//! ```text
//!   owner (Vec, Array, file map, ...) or a C producer
//!     |  moves in, once                       C reads this                   shape, strides
//!     v                                            v                               v
//!   Tensor ----> [ DLManagedTensorVersioned | header | owner ......... | extents | strides ]
//!     |  one pointer, one allocation                       |  keeps alive
//!     |                                                    v
//!     |  view::<T>()                            [ element | element | element | ... ]
//!     +-----------> TensorView<'_, T>  -------------^  any strides, in elements
//!     +-----------> TensorRef<'_>      -------------^  any dtype; a DLTensor for C kernels
//! ```
//!
//! - A [`Tensor`] owns a Rust value, or the memory of a producer. It was validated when it was made, so its description
//!   is correct: [`shape`](Tensor::shape), [`strides`](Tensor::strides), [`dtype`](Tensor::dtype),
//!   [`device`](Tensor::device). Dropping it drops the owner, or calls the producer's deleter, once.
//! - A [`TensorView`] borrows elements of a Rust type. Dtype, device, alignment and bits are checked once, when it is
//!   made. A [`TensorRef`] borrows elements of any dtype.
//! - All of them can be sliced, transposed, reshaped, reversed ([`slice`](Tensor::slice),
//!   [`transpose`](Tensor::transpose), [`reshape`](Tensor::reshape), [`flip`](Tensor::flip), ...)
//!   without a copy. Functions that copy are named `to_...`, or return a [`CopyReason`] beside the result.
//! - [`Tensor::into_raw`] exports a tensor to C; [`ArcTensor::to_raw`] exports it any number of times;
//!   [`Tensor::from_raw`] imports one. An imported tensor that this crate exported is recognised:
//!   [`try_into_owner`](Tensor::try_into_owner) returns the original `Vec`.
//!
//! # Types
//!
//! | | |
//! | --- | --- |
//! | [`Tensor`] | owns memory: made of Rust containers, imported from C, exported to C |
//! | [`TensorView`], [`TensorViewMut`] | typed, borrowed, any strides |
//! | [`TensorRef`], [`TensorRefMut`] | of any dtype, borrowed; a `DLTensor` for the length of a call |
//! | [`DataType`], [`Device`], [`Access`] | the type, the place and the permitted use of the elements |
//! | [`Element`], [`Items`], [`Owner`] | the Rust types that a tensor can be made of |
//! | [`SubbyteView`], [`SubbyteViewMut`] | elements narrower than a byte, packed or padded |
//! | [`Unaligned`] | elements at any address, in either byte order |
//! | [`TensorSlice`], [`TensorSliceMut`] | a tensor that derefs to a slice, for libraries that accept containers |
//! | [`CopyReason`] | the reason for a copy |
//! | [`Datetime64`], [`Timedelta64`] | points and spans of time, as counts of a [`TimeUnit`] |
//! | [`Error`] | the fault, the value found, the remedy |
//! | [`sys`] | the C ABI |
//!
//! # Write access
//!
//! | tensor | access | allows |
//! | --- | --- | --- |
//! | made of a uniquely owned value (`Vec`, `Box`, `Array`) | [`Access::Exclusive`] | mutable views, slices that outlive a view |
//! | made of shared data (`Arc<[T]>`, `&'static [T]`, `Bytes`, `Mmap`) | [`Access::Immutable`] | slices that outlive a view |
//! | from a producer that sets no flag | [`Access::Shared`] | views |
//! | from a producer that sets `READ_ONLY`, or after [`Tensor::into_read_only`] | [`Access::ReadOnly`] | views |
//!
//! [`Tensor::try_into_immutable`] turns an exclusive tensor into an immutable one. The unsafe
//! [`Tensor::assume_exclusive`] and [`Tensor::assume_immutable`] are for memory of a producer whose other users
//! you know. Libraries that keep slices of a tensor, like Arrow, accept exclusive and immutable tensors
//! ([`Tensor::check_stable`]).
//!
//! The unsafe imports are [`Tensor::from_raw`] and its variants; their contract is the specification's.
//! `docs/safety.md` in the repository has the whole trust model.
//!
//! # Features
//!
//! - `std` (default): a panic in an owner's drop is caught in the deleter; a chain of owners, where
//!   each keeps the next tensor alive, drops without recursion.
//!   Without it the crate is `no_std` with `alloc`: such a panic aborts, and dropping a chain of some
//!   thousand owners overflows the stack.
//! - `fast-copies` (default): loops for common strides, transposes and byte orders; with `std`, several threads make
//!   large copies. Without it copies of other than contiguous elements are slower, and a program is 300 kB smaller.
//! - `half`: `f16` and `bf16` of half 2 as elements.
//! - `microfloat`: the floats of eight, six and four bits of microfloat 0.1 as elements.
//! - `num-complex`: complex numbers of num-complex 0.4 as elements.
//! - `bytes`: `Bytes` and `BytesMut` of bytes 1 as owners; tensors as `Bytes` that own them.
//! - `memmap2`: file maps of memmap2 0.9 as owners; turns `std` on.
//! - `ndarray`: arrays of ndarray 0.17 as owners, and views of tensors as ndarray views.
//! - `image`: buffers of image 0.25 as owners of height × width × channels; tensors as image views, and as image
//!   buffers that own them.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub use dlbridge_sys as sys;

#[forbid(unsafe_code)]
mod access;
mod adapters;
#[doc(hidden)]
#[forbid(unsafe_code)]
pub mod bits;
mod block;
#[forbid(unsafe_code)]
mod compare;
#[forbid(unsafe_code)]
mod convert;
mod copy;
#[forbid(unsafe_code)]
mod copy_reason;
#[forbid(unsafe_code)]
mod device;
#[doc(hidden)]
pub mod device_copy;
#[forbid(unsafe_code)]
mod dtype;
mod element;
#[forbid(unsafe_code)]
mod error;
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod fork;
#[forbid(unsafe_code)]
mod layout;
mod memory;
#[cfg(doctest)]
mod must_not_compile;
#[forbid(unsafe_code)]
mod parse;
#[doc(hidden)]
#[forbid(unsafe_code)]
pub mod py_error;
#[forbid(unsafe_code)]
mod slicing;
mod subbyte;
mod tensor;
mod tensor_ref;
mod threads;
#[forbid(unsafe_code)]
mod time;
mod view;

pub use access::Access;
pub use block::RawParts;
pub use copy_reason::CopyReason;
pub use device::{Device, DeviceType};
pub use dtype::{DataType, DataTypeCode};
pub use element::{Element, Items, Unaligned};
pub use error::{Error, Result};
pub use subbyte::{SubbyteView, SubbyteViewMut};
pub use tensor::raw::{Owner, TensorSlice, TensorSliceMut};
pub use tensor::{ArcTensor, Tensor};
pub use tensor_ref::{DLTensorRef, TensorRef, TensorRefMut};
#[cfg(all(feature = "std", feature = "fast-copies"))]
#[doc(hidden)]
pub use threads::run;
pub use threads::{MAX_NUM_THREADS, num_threads, set_num_threads};
pub use time::{
    Datetime64, Days, Hours, Microseconds, Milliseconds, Minutes, Nanoseconds, Seconds, TimeUnit,
    Timedelta64, Weeks,
};
pub use view::{Iter, IterMut, TensorView, TensorViewMut};

/// The largest number of dimensions a [`Tensor`] may have.
///
/// DLPack does not set a limit; NumPy's is 64. A foreign struct with a larger number is refused before its extents are
/// read.
///
/// ```
/// assert!(dlbridge::MAX_NDIM >= 64);
/// ```
pub const MAX_NDIM: usize = 1024;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "ndarray"))]
#[doc = include_str!("../../../README.md")]
struct ProjectReadme;

#[cfg(all(doctest, feature = "ndarray"))]
#[doc = include_str!("../../../docs/getting-started/rust.md")]
struct GettingStarted;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/getting-started/c.md")]
struct GettingStartedInC;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/write-adapter.md")]
struct WriteAdapter;
