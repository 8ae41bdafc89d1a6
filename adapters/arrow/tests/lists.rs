//! Lists of different lengths: address, values and refusals in both directions.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type};
use arrow_array::*;
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use dlbridge::{Access, Tensor};
use dlbridge_arrow::{Error, ListExt, TensorExt};

fn lists() -> ListArray {
    let rows: [&[f32]; 4] = [&[1.0, 2.0], &[], &[3.0], &[4.0, 5.0]];
    let rows = rows.map(|row| Some(row.iter().map(|value| Some(*value))));
    ListArray::from_iter_primitive::<Float32Type, _, _>(rows)
}

#[test]
fn lists_make_a_round_trip_in_place() {
    let source = lists();
    let address = source.values().as_primitive::<Float32Type>().values().as_ptr().addr();
    let first = source.offsets().as_ptr().addr();
    let expected = source.clone();
    let (offsets, values) = source.into_offsets_and_values().unwrap();
    assert_eq!((offsets.data().addr(), values.data().addr()), (first, address));
    assert_eq!(offsets.view::<i32>().unwrap().to_vec(), [0, 2, 2, 3, 5]);
    assert_eq!(values.view::<f32>().unwrap().to_vec(), [1.0, 2.0, 3.0, 4.0, 5.0]);
    let back = values.into_list_array::<i32>(offsets).unwrap();
    assert_eq!(back.len(), expected.len());
    for row in 0..back.len() {
        assert_eq!(&back.value(row), &expected.value(row));
    }
    assert_eq!(back.values().as_primitive::<Float32Type>().values().as_ptr().addr(), address);
    assert_eq!(back.offsets().as_ptr().addr(), first);
}

#[test]
fn sole_lists_are_exclusive() {
    let (offsets, values) = lists().into_offsets_and_values().unwrap();
    assert_eq!((offsets.access(), values.access()), (Access::Exclusive, Access::Exclusive));
}

#[test]
fn sliced_lists_keep_their_offsets() {
    let (offsets, values) = lists().slice(2, 1).into_offsets_and_values().unwrap();
    assert_eq!(offsets.view::<i32>().unwrap().to_vec(), [2, 3]);
    assert_eq!(values.view::<f32>().unwrap().to_vec(), [1.0, 2.0, 3.0]);
    let (offsets, values) = lists().slice(1, 0).into_offsets_and_values().unwrap();
    assert_eq!((offsets.shape(), values.shape()), (&[1][..], &[2][..]));
}

#[test]
fn rows_of_fixed_size_become_dimensions() {
    let values = Tensor::from([[1, 2], [3, 4], [5, 6]]);
    let address = values.data().addr();
    let lists = values.into_list_array::<i64>(Tensor::from(vec![0_i64, 1, 3])).unwrap();
    assert_eq!(lists.value(1).as_fixed_size_list().value_length(), 2);
    let (offsets, values) = lists.into_offsets_and_values().unwrap();
    assert_eq!((values.shape(), values.data().addr()), (&[3, 2][..], address));
    assert_eq!(offsets.view::<i64>().unwrap().to_vec(), [0, 1, 3]);
}

#[test]
fn nulls_and_nested_lists_are_refused() {
    let rows = [Some(vec![Some(1)]), None];
    let null_list = ListArray::from_iter_primitive::<Int32Type, _, _>(rows);
    assert!(matches!(null_list.into_offsets_and_values(), Err(Error::Nulls { count: 1 })));
    let rows = [Some(vec![Some(1), None]), Some(vec![Some(2)])];
    let null_item = ListArray::from_iter_primitive::<Int32Type, _, _>(rows);
    assert!(matches!(null_item.into_offsets_and_values(), Err(Error::Nulls { count: 1 })));
    let field = Arc::new(Field::new_list_field(lists().data_type().clone(), true));
    let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0, 4]));
    let nested = ListArray::new(field, offsets, Arc::new(lists()), None);
    let error = nested.into_offsets_and_values().unwrap_err();
    assert!(matches!(error, Error::Unsupported { data_type: DataType::List(_) }), "{error}");
}

#[test]
fn wrong_offsets_are_refused() {
    let refusal = |offsets: Vec<i32>| {
        let values = Tensor::from(vec![1.0_f32, 2.0]);
        values.into_list_array::<i32>(Tensor::from(offsets)).unwrap_err().to_string()
    };
    assert!(refusal(vec![]).contains("there is none"));
    assert!(refusal(vec![-1, 2]).contains("the first is -1, below 0"));
    assert!(refusal(vec![0, 2, 1, 2]).contains("they decrease from 2 to 1 at index 2"));
    assert!(refusal(vec![0, 3]).contains("the last is 3, beyond the 2 values"));
    let values = || Tensor::from(vec![1.0_f32, 2.0]);
    assert!(values().into_list_array::<i64>(Tensor::from(vec![0, 2])).is_err(), "int32");
    assert!(values().into_list_array::<i32>(Tensor::from([[0, 2]])).is_err(), "two dimensions");
    assert!(values().into_list_array::<i32>(Tensor::from(vec![1, 1])).is_ok());
}
