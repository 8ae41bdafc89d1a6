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
//! let batch = columns.into_record_batch(["x", "y"])?;  // two columns where the rows were
//! assert_eq!(batch.into_tensor()?.shape(), [3, 2]);
//! # Ok::<(), dlbridge_arrow::Error>(())
//! ```
//!
//! | | values | out: [`ArrayExt`], [`BufferExt`], [`FixedShapeExt`] | in: [`TensorExt`] |
//! | --- | --- | --- | --- |
//! | [`Buffer`] | bytes, of any dtype on the way in | zero-copy | zero-copy |
//! | [`ScalarBuffer`] | integers of 8 to 128 bits, `f16`, `f32`, `f64` | zero-copy | zero-copy |
//! | [`PrimitiveArray`], [`ArrayRef`] | integers of 8 to 64 bits, `f16`, `f32`, `f64` | zero-copy | zero-copy |
//! | the same | dates, times, timestamps, durations, months, decimals up to 128 bits | zero-copy, [as integers](ArrayExt::into_storage_tensor) | zero-copy, [by type](TensorExt::into_primitive_array) |
//! | the same | timestamps without a zone and durations, as `Datetime64` and `Timedelta64` | zero-copy, [with their unit](TimeArrayExt); null as NaT in a copy | zero-copy, [with their unit](TimeTensorExt), NaT as null |
//! | [`BooleanArray`] | bits | [copy](ArrayExt::to_tensor) to bytes | [copy](TensorExt::to_array) to bits |
//! | [`FixedSizeListArray`], nested | any of the above | as above, with one more dimension each | as above |
//! | the same, as `arrow.fixed_shape_tensor` | any of the above | zero-copy, permuted | zero-copy, permuted |
//! | [`RecordBatch`] of columns at equal distances in one allocation | numbers of one type | zero-copy, read-only | zero-copy, if the elements of each column are adjacent |
//! | other [`RecordBatch`]es | numbers or booleans of one type | [copy](ArrayExt::to_tensor) | [copy](TensorExt::to_record_batch) |
//!
//! Everything else is refused by name: strings, lists of any length, structs, dictionaries, `Decimal256`, and
//! intervals of several units. So are nulls. An empty array is an empty tensor.
//!
//! # Who may write
//!
//! Arrow keeps slices of the memory. So `into_…` accepts a tensor that nobody else can write, and refuses others with
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
//! [`assume_immutable`](dlbridge::Tensor::assume_immutable). In the other direction, an array is an exclusive tensor if nobody else has its buffer, from its beginning, and an immutable one if not.
//!
//! # Which columns lie in one allocation
//!
//! Those that are parts of one [`Buffer`]: columns made of one tensor whose columns touch, columns of one message that
//! arrow-ipc has read, columns that somebody sliced out of one buffer. Adjacent addresses alone prove nothing.
//!
//! # What the library cannot do
//!
//! - Elements with a distance between them: a tensor in another order than C order is copied, unless it can be
//!   [columns](TensorExt::into_record_batch) or have a [`permutation`](TensorExt::into_fixed_shape_tensor).
//! - bfloat16, complex numbers, floats of eight bits or less, 128-bit integers that are no decimals, tensors without
//!   dimensions, and memory that the CPU cannot read.
//! - A buffer over memory that is not its own is never changed in place by Arrow (`into_mutable` refuses); one that was
//!   a buffer before it was a tensor is, again.
//! - It does not give back what keeps a buffer alive. So a tensor that becomes a record batch, and that one a tensor, again and
//!   again keeps one more owner with every turn. Their memory stays until the last one is dropped; copy the tensor now and then.
//!   The drop itself needs no deep stack.
//! - The type for `arrow.fixed_shape_tensor` in arrow-schema 60 knows the key `permutations` alone, and refuses the format's
//!   `permutation`. This crate reads both, and writes the format's.
//!
//! [`Buffer`]: arrow_buffer::Buffer
//! [`ScalarBuffer`]: arrow_buffer::ScalarBuffer
//! [`PrimitiveArray`]: arrow_array::PrimitiveArray
//! [`ArrayRef`]: arrow_array::ArrayRef
//! [`BooleanArray`]: arrow_array::BooleanArray
//! [`FixedSizeListArray`]: arrow_array::FixedSizeListArray
//! [`RecordBatch`]: arrow_array::RecordBatch

mod array;
mod batch;
mod dtype;
mod error;
mod fixed_shape;
mod memory;
mod tensor;
mod time;

pub use array::{ArrayExt, BufferExt};
pub use error::{Error, Result};
pub use fixed_shape::FixedShapeExt;
pub use tensor::TensorExt;
pub use time::{TimeArrayExt, TimeElement, TimeTensorExt};

/// Keeps the extension traits closed, so that they can grow.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
