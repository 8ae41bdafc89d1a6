//! Timestamps and durations, with their unit.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, PrimitiveArray};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use dlbridge::{
    Datetime64, Element, Error as TensorError, Microseconds, Milliseconds, Nanoseconds, Seconds,
    Tensor, Timedelta64,
};

use crate::dtype::{Elements, Take, Values, values};
use crate::sealed::Sealed;
use crate::{Error, Result, memory};

/// A time type that Arrow has too: [`Datetime64`] or [`Timedelta64`] in seconds to nanoseconds.
///
/// The trait cannot be implemented outside of this crate.
///
/// ```
/// use dlbridge::{Datetime64, Seconds};
/// use dlbridge_arrow::TimeElement;
///
/// let null = Datetime64::<Seconds>::from_count(None);
/// assert_eq!(null, Datetime64::NAT);
/// assert_eq!(Datetime64::<Seconds>::new(5).into_count(), Some(5));
/// ```
pub trait TimeElement: Element + Sealed {
    /// Arrow's type: a timestamp without a time zone, or a duration.
    type Arrow: ArrowPrimitiveType<Native = i64>;

    /// The element for a count of units, or for null.
    fn from_count(count: Option<i64>) -> Self;

    /// The number of units; `None` for NaT.
    fn into_count(self) -> Option<i64>;
}

macro_rules! times {
    ($($element:ident<$unit:ident> = $arrow:ident;)*) => {$(
        impl Sealed for $element<$unit> {}

        impl TimeElement for $element<$unit> {
            type Arrow = $arrow;

            fn from_count(count: Option<i64>) -> Self {
                count.map_or(Self::NAT, Self::new)
            }

            fn into_count(self) -> Option<i64> {
                self.count()
            }
        }
    )*};
}

times! {
    Datetime64<Seconds> = TimestampSecondType;
    Datetime64<Milliseconds> = TimestampMillisecondType;
    Datetime64<Microseconds> = TimestampMicrosecondType;
    Datetime64<Nanoseconds> = TimestampNanosecondType;
    Timedelta64<Seconds> = DurationSecondType;
    Timedelta64<Milliseconds> = DurationMillisecondType;
    Timedelta64<Microseconds> = DurationMicrosecondType;
    Timedelta64<Nanoseconds> = DurationNanosecondType;
}

/// Arrays of timestamps and durations as tensors of times.
///
/// Implemented for [`ArrayRef`], [`PrimitiveArray`] and [`FixedSizeListArray`].
pub trait TimeArrayExt: Sealed + Sized {
    /// The times as a tensor, without a copy. Its dtype is `handle64`, because DLPack lacks times; other libraries
    /// refuse it.
    ///
    /// # Errors
    /// [`Error::OtherTimes`] for values of another type, unit or time zone; [`Error::Nulls`].
    ///
    /// ```
    /// use arrow_array::DurationSecondArray;
    /// use dlbridge::{Seconds, Timedelta64};
    /// use dlbridge_arrow::{TimeArrayExt, TimeTensorExt};
    ///
    /// let tensor = DurationSecondArray::from(vec![60, 90]).into_time_tensor::<Timedelta64<Seconds>>()?;
    /// assert_eq!(tensor.view::<Timedelta64<Seconds>>()?[1].count(), Some(90));
    /// let array: DurationSecondArray = tensor.into_time_array::<Timedelta64<Seconds>>()?;
    /// assert_eq!(array.values()[..], [60, 90]);
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn into_time_tensor<T: TimeElement>(self) -> Result<Tensor>;

    /// Copies the times into an exclusive tensor, with NaT for each null of an array that is not nested.
    ///
    /// # Errors
    /// As [`into_time_tensor`](Self::into_time_tensor), except that only lists give [`Error::Nulls`].
    ///
    /// ```
    /// use arrow_array::TimestampMicrosecondArray;
    /// use dlbridge::{Datetime64, Microseconds};
    /// use dlbridge_arrow::TimeArrayExt;
    ///
    /// let array = TimestampMicrosecondArray::from(vec![Some(5), None]);
    /// let tensor = array.to_time_tensor::<Datetime64<Microseconds>>()?;
    /// assert!(tensor.view::<Datetime64<Microseconds>>()?[1].is_nat());
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn to_time_tensor<T: TimeElement>(&self) -> Result<Tensor>;
}

/// Tensors of times as arrays of Arrow.
pub trait TimeTensorExt: Sealed {
    /// One dimension as an array that reads the elements in place, with null for each NaT.
    ///
    /// # Errors
    /// Those of [`into_primitive_array`](crate::TensorExt::into_primitive_array).
    ///
    /// ```
    /// use arrow_array::Array;
    /// use dlbridge::{Datetime64, Nanoseconds, Tensor};
    /// use dlbridge_arrow::TimeTensorExt;
    ///
    /// let times = Tensor::from(vec![Datetime64::<Nanoseconds>::new(5), Datetime64::NAT]);
    /// let array = times.into_time_array::<Datetime64<Nanoseconds>>()?;
    /// assert_eq!((array.value(0), array.is_null(1)), (5, true));
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn into_time_array<T: TimeElement>(self) -> Result<PrimitiveArray<T::Arrow>>;

    /// Copies a tensor with any strides and access into an array, with null for each NaT.
    ///
    /// # Errors
    /// Those of [`into_time_array`](Self::into_time_array) for dtype and dimensions, and of [`Tensor::to_copy`].
    ///
    /// ```
    /// use dlbridge::{Seconds, Tensor, Timedelta64};
    /// use dlbridge_arrow::TimeTensorExt;
    ///
    /// let spans: Vec<Timedelta64<Seconds>> = vec![1.into(), 2.into()];
    /// let array = Tensor::from(spans).flip(0)?.to_time_array::<Timedelta64<Seconds>>()?;
    /// assert_eq!(array.values()[..], [2, 1]);
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn to_time_array<T: TimeElement>(&self) -> Result<PrimitiveArray<T::Arrow>>;
}

/// Returns an error unless the values of an array, which may be nested, are of the type `T::Arrow`.
fn check<T: TimeElement>(array: &dyn Array) -> Result<()> {
    let mut data_type = array.data_type();
    while let DataType::FixedSizeList(field, _) = data_type {
        data_type = field.data_type();
    }
    match *data_type == T::Arrow::DATA_TYPE {
        true => Ok(()),
        false => {
            let (expected, found) = (T::Arrow::DATA_TYPE, data_type.clone());
            Err(Error::OtherTimes { expected, found })
        }
    }
}

fn into_tensor<T: TimeElement>(array: impl Array) -> Result<Tensor> {
    check::<T>(&array)?;
    let Values { shape, elements } = values(&array, Take::Storage)?;
    let Elements::Numbers(buffer, _) = elements else { return Err(Error::Bits) };
    // Drops the array's handle, so that the buffer may be the only one.
    drop(array);
    memory::to_tensor(buffer, T::DATA_TYPE, &shape)
}

fn to_tensor<T: TimeElement>(array: &dyn Array) -> Result<Tensor> {
    check::<T>(array)?;
    if let Some(times) = array.as_primitive_opt::<T::Arrow>() {
        return Ok(Tensor::from(times.iter().map(T::from_count).collect::<Vec<_>>()));
    }
    let Values { shape, elements } = values(array, Take::Storage)?;
    let Elements::Numbers(buffer, _) = elements else { return Err(Error::Bits) };
    Ok(memory::to_tensor(buffer, T::DATA_TYPE, &shape)?.to_copy()?)
}

macro_rules! arrays {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<$($generics)*> TimeArrayExt for $type {
            fn into_time_tensor<T: TimeElement>(self) -> Result<Tensor> {
                into_tensor::<T>(self)
            }

            fn to_time_tensor<T: TimeElement>(&self) -> Result<Tensor> {
                to_tensor::<T>(self)
            }
        }
    )*};
}

arrays! {
    [] ArrayRef;
    [P: ArrowPrimitiveType] PrimitiveArray<P>;
    [] FixedSizeListArray;
}

impl TimeTensorExt for Tensor {
    fn into_time_array<T: TimeElement>(self) -> Result<PrimitiveArray<T::Arrow>> {
        if self.ndim() != 1 {
            return Err(TensorError::Ndim { expected: 1, found: self.ndim() }.into());
        }
        // Checks dtype, device and alignment.
        let view = self.view::<T>()?;
        let len = view.len();
        let is_time = |time: &T| time.into_count().is_some();
        let nulls = match view.iter().all(is_time) {
            true => None,
            false => Some(view.iter().map(is_time).collect::<NullBuffer>()),
        };
        let counts = ScalarBuffer::new(memory::to_buffer(self)?, 0, len);
        Ok(PrimitiveArray::new(counts, nulls))
    }

    fn to_time_array<T: TimeElement>(&self) -> Result<PrimitiveArray<T::Arrow>> {
        self.to_copy()?.into_time_array::<T>()
    }
}
