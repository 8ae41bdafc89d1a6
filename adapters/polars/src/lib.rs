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
//! let frame = columns.into_data_frame(["x", "y"])?;    // the rows are now columns
//! assert_eq!(frame.into_tensor()?.shape(), [3, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | | values | to tensors: [`SeriesExt`], [`DataFrameExt`] | from tensors: [`TensorExt`] |
//! | --- | --- | --- | --- |
//! | [`Series`], [`ChunkedArray`] of one chunk | integers of 8 to 128 bits, `f16`, `f32`, `f64` | zero-copy | zero-copy |
//! | the same, of several chunks | the same | zero-copy, [one tensor for each](SeriesExt::into_tensors), or [copy](SeriesExt::to_tensor) | |
//! | the same | dates, times, durations, decimals | zero-copy, [as integers](SeriesExt::into_storage_tensor) | as integers, which Polars casts |
//! | the same | booleans, which are bits | [copy](SeriesExt::to_tensor) to bytes | [copy](TensorExt::to_series) to bits |
//! | [`DataFrame`] of columns at equal distances in one allocation | numbers of one type | zero-copy, read-only | zero-copy, if the elements of each column are contiguous |
//! | other [`DataFrame`]s | numbers or booleans of one type | [copy](DataFrameExt::to_tensor) | [copy](TensorExt::to_data_frame) |
//!
//! Other types are refused by name: strings, lists, arrays, structs, categories, and the type of only nulls. Nulls
//! among the values are refused. An empty series becomes an empty tensor.
//!
//! # Write access
//!
//! Polars keeps slices of the memory. So `into_…` accepts only a tensor that no other code can write, and refuses
//! others with [`Unstable`](dlbridge::Error::Unstable):
//!
//! | access of the tensor | |
//! | --- | --- |
//! | [`Exclusive`](dlbridge::Access::Exclusive), [`Immutable`](dlbridge::Access::Immutable) | no copy |
//! | [`Shared`](dlbridge::Access::Shared), as most producers export | refused: the producer may write |
//! | [`ReadOnly`](dlbridge::Access::ReadOnly), also after [`into_read_only`](dlbridge::Tensor::into_read_only) | refused: the producer may write, though consumers must not |
//!
//! Copy a refused tensor with `to_…`. Make an exclusive tensor immutable with
//! [`try_into_immutable`](dlbridge::Tensor::try_into_immutable) before you [share](dlbridge::ArcTensor::share) it. If
//! you know that no code writes the memory, promise it with the unsafe
//! [`assume_immutable`](dlbridge::Tensor::assume_immutable).
//!
//! A series becomes an exclusive tensor if it covers all of its memory and no other handle has that memory, and an
//! immutable one otherwise.
//!
//! # Columns in one allocation
//!
//! Columns are in one allocation if they are slices of one [`Buffer`](polars_buffer::Buffer), as those of a tensor in
//! Fortran order are. Neighbouring addresses alone prove nothing. Most data frames have their columns in separate
//! allocations. A column of one scalar has no memory until its values are needed; Polars then writes them out.
//!
//! # Limits of Polars
//!
//! - No strides within a column: a tensor of one dimension must be contiguous or copied; one of two dimensions can
//!   become columns if each column is contiguous.
//! - No tensors of three dimensions or more. The lists and arrays of Polars are refused too.
//! - No bfloat16, complex numbers, floats of eight bits or less, or memory that the CPU cannot read.
//! - Polars never changes foreign memory in place: it copies first. It changes its own vectors in place, also after a
//!   round trip through a tensor.
//! - Polars does not return the owner of a buffer. So each round trip from a tensor to a data frame and back adds an
//!   owner, and the memory of all of them stays until the last one is dropped. Copy the tensor now and then. The drop
//!   itself needs no deep stack.
//! - Without the feature `fmt` of polars-core a series prints without its values. The program chooses the other
//!   features of Polars; this crate enables those that the numbers in the table need.
//!
//! Polars changes its public interface in each release; this crate follows with releases of its own.
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

/// Keeps the extension traits closed, so that methods can be added.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
