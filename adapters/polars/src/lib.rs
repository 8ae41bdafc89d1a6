//! Polars series and data frames as tensors, and tensors as series and data frames, without a copy, for polars-core 0.55.
//!
//! ```
//! use dlbridge::Tensor;
//! use dlbridge_polars::{DataFrameExt, SeriesExt, TensorExt};
//! use polars_core::prelude::*;
//!
//! let series = Series::new("a".into(), [1.0, 2.0, 3.0]);
//! let tensor = series.into_tensor()?;                  // the memory of its one chunk, for any DLPack consumer
//! let address = tensor.data().addr();
//! let series = tensor.into_series("b")?;               // the same memory again
//! assert_eq!(series.f64()?.cont_slice()?.as_ptr().addr(), address);
//!
//! let columns = Tensor::from([[1_i64, 2, 3], [4, 5, 6]]).transpose();
//! let frame = columns.into_data_frame(["x", "y"])?;    // two columns where the rows were
//! assert_eq!(frame.into_tensor()?.shape(), [3, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | | values | out: [`SeriesExt`], [`DataFrameExt`] | in: [`TensorExt`] |
//! | --- | --- | --- | --- |
//! | [`Series`], [`ChunkedArray`] of one chunk | integers of 8 to 128 bits, `f16`, `f32`, `f64` | zero-copy | zero-copy |
//! | the same, of several chunks | the same | zero-copy, [one tensor for each](SeriesExt::into_tensors), or [copy](SeriesExt::to_tensor) | |
//! | the same | dates, times, durations, decimals | zero-copy, [as integers](SeriesExt::into_storage_tensor) | as integers, which Polars casts |
//! | the same | booleans, which are bits | [copy](SeriesExt::to_tensor) to bytes | [copy](TensorExt::to_series) to bits |
//! | [`DataFrame`] of columns at equal distances in one allocation | numbers of one type | zero-copy, read-only | zero-copy, if the elements of each column are adjacent |
//! | other [`DataFrame`]s | numbers or booleans of one type | [copy](DataFrameExt::to_tensor) | [copy](TensorExt::to_data_frame) |
//!
//! Everything else is refused by name: strings, lists, arrays, structs, categories, nulls as a type. So are nulls among the
//! values. An empty series is an empty tensor.
//!
//! # Who may write
//!
//! Polars keeps slices of the memory. So `into_…` accepts a tensor that nobody else can write, and refuses others with
//! [`Unstable`](dlbridge::Error::Unstable):
//!
//! | access of the tensor | |
//! | --- | --- |
//! | [`Exclusive`](dlbridge::Access::Exclusive), [`Immutable`](dlbridge::Access::Immutable) | no copy |
//! | [`Shared`](dlbridge::Access::Shared), as most producers lend it | refused: the producer may write |
//! | [`ReadOnly`](dlbridge::Access::ReadOnly), also after [`into_read_only`](dlbridge::Tensor::into_read_only) | refused: the producer may write, though consumers must not |
//!
//! Copy a refused tensor with `to_…`; [`try_into_immutable`](dlbridge::Tensor::try_into_immutable) makes an exclusive tensor immutable before
//! it is [shared](dlbridge::Tensor::share); and if you know that nobody writes, promise it with the unsafe
//! [`assume_immutable`](dlbridge::Tensor::assume_immutable). In the other direction, a series is an exclusive tensor if it is all of its memory and nobody else has that, and an immutable one if not.
//!
//! # Which columns lie in one allocation
//!
//! Those that are parts of one [`Buffer`](polars_buffer::Buffer), as those of a tensor in Fortran order are. Adjacent
//! addresses alone prove nothing. Most data frames have their columns in allocations of their own; a column of one scalar
//! has none until it is asked for, and is then written out by Polars.
//!
//! # What the library cannot do
//!
//! - Elements with a distance between them: a tensor of one dimension is copied, one of two is columns at best.
//! - Three dimensions or more. The lists and arrays of Polars are refused, too.
//! - bfloat16, complex numbers, floats of eight bits or less, and memory that the CPU cannot read.
//! - Memory that is not a vector of Polars' own is never changed in place by it: it copies first. What was a series
//!   before it was a tensor is.
//! - It does not give back what keeps a buffer alive. So a tensor that becomes a data frame, and that one a tensor, again and
//!   again keeps one more owner with every turn. Their memory stays until the last one is dropped; copy the tensor now and then.
//!   The drop itself needs no deep stack.
//! - Without the feature `fmt` of polars-core a series is printed without its values. The other features of Polars
//!   are the user's to choose; this crate turns those on that the numbers in the table need.
//!
//! Polars changes what is public in each release; this crate follows it with releases of its own.
//!
//! [`Series`]: polars_core::series::Series
//! [`ChunkedArray`]: polars_core::chunked_array::ChunkedArray
//! [`DataFrame`]: polars_core::frame::DataFrame

mod error;
mod frame;
mod memory;
mod number;
mod series;
mod tensor;

pub use error::{Error, Result};
pub use frame::DataFrameExt;
pub use series::SeriesExt;
pub use tensor::TensorExt;

/// Keeps the extension traits closed, so that they can grow.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
