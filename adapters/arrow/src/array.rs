//! Arrays and buffers into tensors.

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, BooleanArray, FixedSizeListArray, PrimitiveArray, RecordBatch};
use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer};
use dlbridge::{DataType, Element, Tensor};

use crate::dtype::{Elements, Take, Values, values};
use crate::sealed::Sealed;
use crate::{Error, Result, batch, memory};

/// Arrays, and batches of them, as tensors.
///
/// Implemented for [`ArrayRef`], [`PrimitiveArray`], [`FixedSizeListArray`], [`BooleanArray`] and
/// [`RecordBatch`].
pub trait ArrayExt: Sealed + Sized {
    /// The values as a tensor, without a copy.
    ///
    /// An array gives one dimension, and one more for each list of a fixed size around the values, in C order. A
    /// batch gives rows and columns, in Fortran order or with a stride between the columns.
    ///
    /// The tensor is [`Access::Exclusive`](dlbridge::Access::Exclusive) if no other handle has the values; Arrow can
    /// change them in place again when they come back. It is [`Access::Immutable`](dlbridge::Access::Immutable) if
    /// another handle may have them, if the array does not begin where its buffer begins, and for a batch.
    ///
    /// # Errors
    /// [`Error::Nulls`]; [`Error::Bits`] for booleans; [`Error::Meaning`] for dates, times, durations and decimals;
    /// [`Error::Unsupported`] for other types. For a batch without one stride through all columns,
    /// [`Error::OtherAllocation`], [`Error::UnevenColumns`], [`Error::ColumnTypes`] or [`Error::NoColumns`].
    ///
    /// ```
    /// use arrow_array::{Array, Float32Array};
    /// use dlbridge_arrow::ArrayExt;
    ///
    /// let array = Float32Array::from(vec![1.0, 2.0, 3.0]);
    /// let address = array.values().as_ptr().addr();
    /// let tensor = array.slice(1, 2).into_tensor()?;
    /// assert_eq!(tensor.data().addr(), address + 4);
    /// assert_eq!(tensor.view::<f32>()?.to_vec(), [2.0, 3.0]);
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn into_tensor(self) -> Result<Tensor>;

    /// As [`into_tensor`](Self::into_tensor), with dates, times, timestamps, durations, intervals of months and
    /// decimals as the integers that Arrow stores. The caller must know what the integers mean.
    ///
    /// # Errors
    /// As [`into_tensor`](Self::into_tensor), except [`Error::Meaning`].
    ///
    /// ```
    /// use arrow_array::Date32Array;
    /// use dlbridge_arrow::ArrayExt;
    ///
    /// let days = Date32Array::from(vec![0, 365]).into_storage_tensor()?;
    /// assert_eq!(days.view::<i32>()?.to_vec(), [0, 365]);
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn into_storage_tensor(self) -> Result<Tensor>;

    /// Copies the values into an exclusive tensor. Booleans take one byte each; the columns of any batch follow one
    /// another.
    ///
    /// # Errors
    /// As [`into_tensor`](Self::into_tensor), except for booleans and for columns without one stride. Values refused
    /// with [`Error::Meaning`] must be cast to integers first: see the example.
    /// [`OutOfMemory`](dlbridge::Error::OutOfMemory) if the allocation for the numbers of an array fails. If the
    /// allocation for booleans or for the columns of a batch fails, the process aborts, as with any [`Vec`].
    ///
    /// ```
    /// use arrow_array::BooleanArray;
    /// use dlbridge_arrow::ArrayExt;
    ///
    /// let tensor = BooleanArray::from(vec![true, false]).to_tensor()?;
    /// assert_eq!(tensor.view::<bool>()?.to_vec(), [true, false]);
    ///
    /// use arrow_array::Date32Array;
    /// use arrow_array::types::Int32Type;
    ///
    /// let days = Date32Array::from(vec![0, 365]);
    /// let tensor = days.reinterpret_cast::<Int32Type>().to_tensor()?;
    /// assert_eq!(tensor.view::<i32>()?.to_vec(), [0, 365]);
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn to_tensor(&self) -> Result<Tensor>;
}

/// Buffers as tensors.
///
/// Implemented for [`ScalarBuffer`] of numbers that have a dtype (not `i256` and the intervals of several units), and
/// for [`Buffer`], whose bytes are `uint8`.
pub trait BufferExt: Sealed {
    /// The elements as a tensor of one dimension, without a copy. The [`Access`](dlbridge::Access) is that of
    /// [`ArrayExt::into_tensor`].
    ///
    /// ```
    /// use arrow_buffer::ScalarBuffer;
    /// use dlbridge_arrow::{BufferExt, TensorExt};
    ///
    /// let mut tensor = ScalarBuffer::from(vec![1.0_f64, 2.0]).into_tensor();
    /// tensor.view_mut::<f64>()?[[0]] = 10.0;       // no other handle has the buffer
    /// let buffer: ScalarBuffer<f64> = tensor.into_scalar_buffer()?;
    /// assert_eq!(buffer[..], [10.0, 2.0]);
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn into_tensor(self) -> Tensor;
}

fn into_tensor(array: impl Array, take: Take) -> Result<Tensor> {
    let Values { shape, elements } = values(&array, take)?;
    let Elements::Numbers(buffer, dtype) = elements else { return Err(Error::Bits) };
    // Drops the array's handle, so that the buffer may be the only one.
    drop(array);
    memory::to_tensor(buffer, dtype, &shape)
}

fn to_tensor(array: &dyn Array) -> Result<Tensor> {
    let Values { shape, elements } = values(array, Take::Numbers)?;
    match elements {
        Elements::Numbers(buffer, dtype) => {
            Ok(memory::to_tensor(buffer, dtype, &shape)?.to_copy()?)
        }
        Elements::Bits(bits) => Ok(Tensor::from_parts(bits.iter().collect::<Vec<bool>>(), shape)?),
    }
}

macro_rules! arrays {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<$($generics)*> Sealed for $type {}

        impl<$($generics)*> ArrayExt for $type {
            fn into_tensor(self) -> Result<Tensor> {
                into_tensor(self, Take::Numbers)
            }

            fn into_storage_tensor(self) -> Result<Tensor> {
                into_tensor(self, Take::Storage)
            }

            fn to_tensor(&self) -> Result<Tensor> {
                to_tensor(self)
            }
        }
    )*};
}

arrays! {
    [] ArrayRef;
    [T: ArrowPrimitiveType] PrimitiveArray<T>;
    [] FixedSizeListArray;
    [] BooleanArray;
}

impl Sealed for RecordBatch {}

impl ArrayExt for RecordBatch {
    fn into_tensor(self) -> Result<Tensor> {
        batch::into_tensor(self, Take::Numbers)
    }

    fn into_storage_tensor(self) -> Result<Tensor> {
        batch::into_tensor(self, Take::Storage)
    }

    fn to_tensor(&self) -> Result<Tensor> {
        batch::to_tensor(self)
    }
}

impl Sealed for Buffer {}

impl BufferExt for Buffer {
    fn into_tensor(self) -> Tensor {
        let len = self.len();
        memory::to_tensor(self, DataType::UINT8, &[len]).expect("as many bytes as there are")
    }
}

impl<T: ArrowNativeType + Element> Sealed for ScalarBuffer<T> {}

impl<T: ArrowNativeType + Element> BufferExt for ScalarBuffer<T> {
    fn into_tensor(self) -> Tensor {
        let len = self.len();
        memory::to_tensor(self.into_inner(), T::DATA_TYPE, &[len])
            .expect("as many elements as there are")
    }
}
