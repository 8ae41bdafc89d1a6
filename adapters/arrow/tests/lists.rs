//! Lists of different lengths, and the canonical extension type for tensors of one shape: address, values and refusals.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use dlbridge::{Access, Error as TensorError, Tensor};
use dlbridge_arrow::{ArrayExt, Error, FixedShapeExt, ListExt, TensorExt};
use dlbridge_testing::{foreign_strided, foreign_vec};

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

fn field(name: &str, metadata: &str) -> Field {
    let metadata = [("ARROW:extension:name", name), ("ARROW:extension:metadata", metadata)];
    let owned = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Field::new("x", DataType::Null, false).with_metadata(HashMap::from(owned))
}

/// Two lists of six.
fn array() -> FixedSizeListArray {
    Tensor::from([[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]).into_fixed_size_list().unwrap()
}

fn read(metadata: &str) -> Result<Tensor, Error> {
    array().into_fixed_shape_tensor(&field("arrow.fixed_shape_tensor", metadata))
}

#[test]
fn shape_comes_from_the_metadata() {
    let list = array();
    let address = list.values().as_primitive::<Int32Type>().values().as_ptr().addr();
    let list: ArrayRef = Arc::new(list);
    let six = field("arrow.fixed_shape_tensor", r#"{"shape": [2, 3], "dim_names": ["C\"", "H"]}"#);
    let tensor = list.slice(1, 1).into_fixed_shape_tensor(&six).unwrap();
    assert_eq!((tensor.shape(), tensor.strides()), (&[1, 2, 3][..], &[6, 3, 1][..]));
    assert_eq!(tensor.data().addr(), address + 24);
    let tensor = read(r#"{"shape":[6], "permutation":null}"#).unwrap();
    assert_eq!((tensor.shape(), tensor.access()), (&[2, 6][..], Access::Immutable));
}

#[test]
fn permutation_becomes_strides() {
    for key in ["permutation", "permutations"] {
        // The example of the format, smaller: physical [1, 2, 3], logical [3, 1, 2].
        let tensor = read(&format!(r#"{{"shape":[1,2,3],"{key}":[2,0,1]}}"#)).unwrap();
        assert_eq!((tensor.shape(), tensor.strides()), (&[2, 3, 1, 2][..], &[6, 1, 6, 3][..]));
        assert_eq!(tensor.view::<i32>().unwrap().to_vec()[..6], [0, 3, 1, 4, 2, 5]);
    }
    let both = r#"{"shape":[2,3],"permutation":[1,0],"permutations":[1,0]}"#;
    assert_eq!(read(both).unwrap().shape(), [2, 3, 2]);
}

#[test]
fn wrong_metadata_is_refused() {
    for (metadata, reason) in [
        ("", "EOF"),
        ("[]", "it is not a JSON object"),
        ("{}", "it has no shape"),
        (r#"{"shape":6}"#, "shape is 6, not an array of numbers"),
        (r#"{"shape":[-6]}"#, "shape is [-6], not an array of numbers"),
        (r#"{"shape":[2,2]}"#, "the shape is [2, 2], but a list has 6 values"),
        (r#"{"shape":[18446744073709551615,18446744073709551615]}"#, "the shape is"),
        (
            r#"{"shape":[2,3],"permutation":[0]}"#,
            "permutation [0] does not name each of 2 dimensions once",
        ),
        (r#"{"shape":[2,3],"permutation":[1,1]}"#, "permutation [1, 1] does not"),
        (r#"{"shape":[2,3],"permutation":[1,2]}"#, "permutation [1, 2] does not"),
        (r#"{"shape":[2,3],"permutation":"ab"}"#, "permutation is \"ab\""),
        (
            r#"{"shape":[2,3],"permutation":[0,1],"permutations":[1,0]}"#,
            "permutation and permutations differ",
        ),
    ] {
        let Err(Error::Metadata { reason: found }) = read(metadata) else { panic!("{metadata}") };
        assert!(found.starts_with(reason), "{found}");
    }
    let wrong =
        |result: Result<Tensor, Error>| assert!(matches!(result, Err(Error::Metadata { .. })));
    wrong(array().into_fixed_shape_tensor(&field("arrow.uuid", r#"{"shape":[6]}"#)));
    wrong(array().into_fixed_shape_tensor(&Field::new("x", DataType::Null, false)));
    let good = field("arrow.fixed_shape_tensor", r#"{"shape":[2]}"#);
    let flat: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    wrong(flat.into_fixed_shape_tensor(&good));
    let nulls: ArrayRef = Arc::new(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
        [Some(vec![Some(1), None])],
        2,
    ));
    assert!(matches!(nulls.into_fixed_shape_tensor(&good), Err(Error::Nulls { count: 1 })));
}

#[test]
fn tensors_round_trip_as_values() {
    let layouts: [(&[i64], &[i64], &str); 6] = [
        (&[2, 2, 3], &[6, 3, 1], r#"{"shape":[2, 3]}"#),
        (&[2, 3, 2], &[6, 1, 3], r#"{"shape":[2, 3],"permutation":[1, 0]}"#),
        (&[1, 3, 1, 2], &[77, 1, 5, 3], r#"{"shape":[2, 1, 3],"permutation":[2, 1, 0]}"#),
        (&[2, 3, 1, 2], &[6, 1, 6, 3], r#"{"shape":[2, 1, 3],"permutation":[2, 1, 0]}"#),
        (&[1, 3, 2, 2], &[12, 1, 6, 3], r#"{"shape":[2, 2, 3],"permutation":[2, 0, 1]}"#),
        (&[2, 6], &[6, 1], r#"{"shape":[6]}"#),
    ];
    for (shape, strides, metadata) in layouts {
        let (tensor, dropped) =
            foreign_strided((0..12).collect::<Vec<i32>>(), (shape, strides, 0), Access::Exclusive);
        let (address, values) = (tensor.data().addr(), tensor.view::<i32>().unwrap().to_vec());
        let (field, array) = tensor.into_fixed_shape_tensor("x").unwrap();
        assert_eq!(field.metadata()["ARROW:extension:metadata"], metadata);
        assert_eq!((field.name().as_str(), field.data_type()), ("x", array.data_type()));
        let tensor = array.into_fixed_shape_tensor(&field).unwrap();
        assert_eq!((tensor.shape(), tensor.data().addr()), (shape, address));
        assert_eq!(tensor.view::<i32>().unwrap().to_vec(), values);
        assert_eq!(dropped.count(), 0);
        drop(tensor);
        assert_eq!(dropped.count(), 1);
    }
}

#[test]
fn noncontiguous_tensor_is_refused_and_dropped() {
    let layouts: [(&[i64], &[i64]); 4] =
        [(&[2, 2], &[1, 2]), (&[2, 2], &[4, 2]), (&[2, 2, 2], &[4, 0, 1]), (&[2, 2], &[2, -1])];
    for (shape, strides) in layouts {
        let (tensor, dropped) =
            foreign_strided(vec![0_i32; 12], (shape, strides, 4), Access::Exclusive);
        let error = tensor.into_fixed_shape_tensor("x").unwrap_err();
        assert!(matches!(error, Error::Tensor(TensorError::NotContiguous)), "{error:?}");
        assert_eq!(dropped.count(), 1);
    }
    let (flat, dropped) = foreign_vec(vec![1]);
    let error = flat.into_fixed_shape_tensor("x").unwrap_err();
    assert!(matches!(error, Error::Tensor(TensorError::Ndim { expected: 2, found: 1 })));
    assert_eq!(dropped.count(), 1);
    assert!(matches!(Tensor::from([[true]]).into_fixed_shape_tensor("x"), Err(Error::Bits)));
    let none = Tensor::from_parts(Vec::<f32>::new(), [0, 2, 3]).unwrap();
    let (field, array) = none.into_fixed_shape_tensor("x").unwrap();
    assert_eq!(array.value_length(), 6);
    assert_eq!(array.into_fixed_shape_tensor(&field).unwrap().shape(), [0, 2, 3]);
    assert_eq!(array_of_none().into_tensor().unwrap().shape(), [0, 6]);
}

fn array_of_none() -> FixedSizeListArray {
    array().slice(2, 0)
}
