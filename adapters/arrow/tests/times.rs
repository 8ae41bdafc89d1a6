//! Timestamps and durations as elements with a unit, and back.

use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::*;
use arrow_schema::{DataType, Field};
use dlbridge::{
    Access, Datetime64, Microseconds, Milliseconds, Nanoseconds, Seconds, Tensor, Timedelta64,
};
use dlbridge_arrow::{ArrayExt, Error, TensorExt, TimeArrayExt, TimeElement, TimeTensorExt};

/// Asserts that an array is exported in place, whole and sliced, and comes back, with NaT for null.
#[track_caller]
fn round_trip<T: TimeElement + PartialEq + std::fmt::Debug>() {
    let array = PrimitiveArray::<T::Arrow>::new(vec![5, -3, 7].into(), None);
    let address = array.values().as_ptr().addr();
    let part: ArrayRef = Arc::new(array.slice(1, 2));
    let tensor = part.into_time_tensor::<T>().unwrap();
    assert_eq!(
        (tensor.data().addr(), tensor.dtype().to_string()),
        (address + 8, "handle64".to_owned())
    );
    assert_eq!(tensor.view::<T>().unwrap().to_vec(), [Some(-3), Some(7)].map(T::from_count));
    drop(tensor);
    let tensor = array.into_time_tensor::<T>().unwrap();
    assert_eq!((tensor.data().addr(), tensor.access()), (address, Access::Exclusive));
    let again = tensor.into_time_array::<T>().unwrap();
    assert_eq!((again.values().as_ptr().addr(), again.null_count()), (address, 0));
    assert!(again.into_builder().is_ok(), "it can be changed in place again");

    let of = |counts: &[Option<i64>]| counts.iter().copied().collect::<PrimitiveArray<T::Arrow>>();
    let array = of(&[Some(5), None, Some(7)]);
    assert!(matches!(array.clone().into_time_tensor::<T>(), Err(Error::Nulls { count: 1 })));
    let tensor = array.to_time_tensor::<T>().unwrap();
    assert_eq!(tensor.view::<T>().unwrap().to_vec(), [Some(5), None, Some(7)].map(T::from_count));
    assert_eq!(tensor.to_time_array::<T>().unwrap(), array);
    let reversed = tensor.flip(0).unwrap().to_time_array::<T>().unwrap();
    assert_eq!(reversed, of(&[Some(7), None, Some(5)]));
    let empty = of(&[]).into_time_tensor::<T>().unwrap();
    assert_eq!(empty.into_time_array::<T>().unwrap().len(), 0);
}

#[test]
fn times_of_every_unit_keep_unit_and_null() {
    round_trip::<Datetime64<Seconds>>();
    round_trip::<Datetime64<Milliseconds>>();
    round_trip::<Datetime64<Microseconds>>();
    round_trip::<Datetime64<Nanoseconds>>();
    round_trip::<Timedelta64<Seconds>>();
    round_trip::<Timedelta64<Milliseconds>>();
    round_trip::<Timedelta64<Microseconds>>();
    round_trip::<Timedelta64<Nanoseconds>>();
}

#[test]
fn other_units_zones_and_types_are_refused() {
    type Time = Datetime64<Seconds>;
    let message = |error: Error| error.to_string();
    let milliseconds = TimestampMillisecondArray::from(vec![1]);
    let error = milliseconds.to_time_tensor::<Time>().unwrap_err();
    assert_eq!(
        message(error),
        "expected Timestamp(s), got Timestamp(ms); name the elements of that unit, or cast the array first"
    );
    let zone = TimestampSecondArray::from(vec![1]).with_timezone("UTC");
    assert!(matches!(zone.to_time_tensor::<Time>(), Err(Error::OtherTimes { .. })));
    assert!(matches!(zone.into_time_tensor::<Time>(), Err(Error::OtherTimes { .. })));
    let integers = Int64Array::from(vec![1]);
    assert!(matches!(integers.into_time_tensor::<Time>(), Err(Error::OtherTimes { .. })));
    let spans = DurationSecondArray::from(vec![1]);
    assert!(matches!(spans.into_time_tensor::<Time>(), Err(Error::OtherTimes { .. })));
    assert!(matches!(
        TimestampSecondArray::from(vec![1]).into_tensor(),
        Err(Error::Meaning { .. })
    ));
    let times = || Tensor::from(vec![Time::new(1)]);
    assert!(matches!(times().into_array(), Err(Error::NoArrowType { .. })));
    assert!(Tensor::from(vec![1_i64]).into_time_array::<Time>().is_err());
    assert!(Tensor::from([[Time::new(1)]]).into_time_array::<Time>().is_err());
    let shared = times().into_shared();
    assert!(shared.share().into_time_array::<Time>().is_err(), "other holders may write it");
}

#[test]
fn lists_of_times_become_dimensions() {
    let field = Arc::new(Field::new_list_field(TimestampSecondType::DATA_TYPE, false));
    let values = Arc::new(TimestampSecondArray::from(vec![1, 2, 3, 4]));
    let lists = FixedSizeListArray::new(field, 2, values, None);
    assert!(matches!(lists.data_type(), DataType::FixedSizeList(..)));
    let copy = lists.to_time_tensor::<Datetime64<Seconds>>().unwrap();
    let tensor = lists.into_time_tensor::<Datetime64<Seconds>>().unwrap();
    assert_eq!((copy.shape(), tensor.shape()), (&[2, 2][..], &[2, 2][..]));
    assert_eq!(tensor.view::<Datetime64<Seconds>>().unwrap()[[1, 0]].count(), Some(3));
}
