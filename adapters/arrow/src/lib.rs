//! Arrow arrays as tensors, and tensors as Arrow arrays, without a copy, for arrow-array and arrow-buffer 60.
//!
//! ```
//! use arrow_array::{Array, Float32Array};
//! use dlbridge::Tensor;
//! use dlbridge_arrow::{ArrayExt, TensorExt};
//!
//! let array = Float32Array::from(vec![1.0, 2.0, 3.0, 4.0]);
//! let address = array.values().as_ptr().addr();
//! let tensor = array.into_tensor()?.reshape([2, 2])?;  // for any DLPack consumer
//! assert_eq!(tensor.data().addr(), address);
//! let rows = tensor.into_array()?;                     // the same buffer, in lists of two
//! assert_eq!(rows.data_type().to_string(), "FixedSizeList(2 x non-null Float32)");
//!
//! let columns = Tensor::from([[1_i64, 2, 3], [4, 5, 6]]).transpose();
//! let batch = columns.into_record_batch(["x", "y"])?;  // the rows are now columns
//! assert_eq!(batch.into_tensor()?.shape(), [3, 2]);
//! # Ok::<(), dlbridge_arrow::Error>(())
//! ```
//!
//! | | values | to tensors: [`ArrayExt`], [`BufferExt`], [`FixedShapeExt`], [`ListExt`] | from tensors: [`TensorExt`] |
//! | --- | --- | --- | --- |
//! | [`Buffer`] | bytes; from tensors of any dtype | zero-copy | zero-copy |
//! | [`ScalarBuffer`] | integers of 8 to 128 bits, `f16`, `f32`, `f64` | zero-copy | zero-copy |
//! | [`PrimitiveArray`], [`ArrayRef`] | integers of 8 to 64 bits, `f16`, `f32`, `f64` | zero-copy | zero-copy |
//! | the same | dates, times, timestamps, durations, months, decimals up to 128 bits | zero-copy, [as integers](ArrayExt::into_storage_tensor) | zero-copy, [by type](TensorExt::into_primitive_array) |
//! | the same | timestamps without a zone and durations, as `Datetime64` and `Timedelta64` | zero-copy, [with their unit](TimeArrayExt); null as NaT in a copy | zero-copy, [with their unit](TimeTensorExt), NaT as null |
//! | [`BooleanArray`] | bits | [copy](ArrayExt::to_tensor) to bytes | [copy](TensorExt::to_array) to bits |
//! | [`FixedSizeListArray`], nested | any of the above | as above, with one more dimension each | as above |
//! | the same, as `arrow.fixed_shape_tensor` | any of the above | zero-copy, permuted | zero-copy, permuted |
//! | [`ListArray`], [`LargeListArray`] of any of the above | offsets and values | zero-copy, [two tensors](ListExt) | zero-copy, [of two tensors](TensorExt::into_list_array) |
//! | [`RecordBatch`] of columns at equal distances in one allocation | numbers of one type | zero-copy, read-only | zero-copy, if the elements of each column are contiguous |
//! | other [`RecordBatch`]es | numbers or booleans of one type | [copy](ArrayExt::to_tensor) | [copy](TensorExt::to_record_batch) |
//!
//! Other types are refused by name: strings, lists of lists, structs, dictionaries, `Decimal256`, and intervals
//! of several units. Nulls are refused. An empty array becomes an empty tensor.
//!
//! # Write access
//!
//! Arrow keeps slices of the memory. So `into_…` accepts only a tensor that no other code can write, and refuses
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
//! An array becomes an exclusive tensor if it begins where its buffer begins and no other handle has the buffer, and
//! an immutable one otherwise.
//!
//! # Columns in one allocation
//!
//! Columns are in one allocation if they are slices of one [`Buffer`]: columns made of one tensor without gaps
//! between its columns, columns of one message that arrow-ipc read, or slices that the program made of one buffer.
//! Neighbouring addresses alone prove nothing.
//!
//! # Limits of Arrow
//!
//! - No strides: a tensor that is not in C order must be copied, unless it fits
//!   [columns](TensorExt::into_record_batch) or a [`permutation`](TensorExt::into_fixed_shape_tensor).
//! - No bfloat16, complex numbers, floats of eight bits or less, 128-bit integers that are not decimals, 0-d tensors,
//!   or memory that the CPU cannot read.
//! - Arrow never changes a buffer over foreign memory in place (`into_mutable` refuses). A buffer that became a
//!   tensor and a buffer again can be changed in place.
//! - Arrow does not return the owner of a buffer. So each round trip from a tensor to a record batch and back adds an
//!   owner, and the memory of all of them stays until the last one is dropped. Copy the tensor now and then. The drop
//!   itself needs no deep stack.
//! - The type for `arrow.fixed_shape_tensor` in arrow-schema 60 knows only the key `permutations`, and refuses the
//!   format's `permutation`. This crate reads both, and writes `permutation`.
//!
//! [`Buffer`]: arrow_buffer::Buffer
//! [`ScalarBuffer`]: arrow_buffer::ScalarBuffer
//! [`PrimitiveArray`]: arrow_array::PrimitiveArray
//! [`ArrayRef`]: arrow_array::ArrayRef
//! [`BooleanArray`]: arrow_array::BooleanArray
//! [`FixedSizeListArray`]: arrow_array::FixedSizeListArray
//! [`ListArray`]: arrow_array::ListArray
//! [`LargeListArray`]: arrow_array::LargeListArray
//! [`RecordBatch`]: arrow_array::RecordBatch

mod array;
mod batch;
mod dtype;
mod error;
mod list;
mod memory;
mod tensor;
mod time;

pub use array::{ArrayExt, BufferExt};
pub use error::{Error, Result};
pub use list::{FixedShapeExt, ListExt};
pub use tensor::TensorExt;
pub use time::{TimeArrayExt, TimeElement, TimeTensorExt};

/// Keeps the extension traits closed, so that methods can be added.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
