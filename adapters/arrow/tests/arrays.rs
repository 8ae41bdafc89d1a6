//! Arrays and buffers to tensors: address and values for every type of Arrow, or its refusal.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Int32Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer, i256};
use arrow_schema::{DataType, Field, Fields, UnionFields, UnionMode};
use dlbridge::{Access, Element, Tensor};
use dlbridge_arrow::{ArrayExt, BufferExt, Error, TensorExt};
use half::f16;

/// Asserts that an array of numbers is exported in place, whole and sliced, and comes back.
#[track_caller]
fn out<P: ArrowPrimitiveType<Native: Element + Debug>>(values: [P::Native; 3]) {
    let array = PrimitiveArray::<P>::new(values.to_vec().into(), None);
    let address = array.values().as_ptr().addr();
    let shared = array.clone();
    let tensor = array.into_tensor().unwrap();
    assert_eq!((tensor.dtype(), tensor.shape()), (P::Native::DATA_TYPE, &[3][..]));
    assert_eq!((tensor.data().addr(), tensor.access()), (address, Access::Immutable));
    assert_eq!(tensor.view::<P::Native>().unwrap().to_vec(), values);
    drop(tensor);
    let part: ArrayRef = Arc::new(shared.slice(1, 2));
    let tensor = part.into_tensor().unwrap();
    assert_eq!(tensor.data().addr(), address + size_of::<P::Native>());
    assert_eq!(tensor.view::<P::Native>().unwrap().to_vec(), values[1..]);
    drop(tensor);
    let tensor = shared.into_tensor().unwrap();
    assert_eq!((tensor.data().addr(), tensor.access()), (address, Access::Exclusive));
    let again = tensor.into_primitive_array::<P>().unwrap();
    assert_eq!((again.values().as_ptr().addr(), &again.values()[..]), (address, &values[..]));
    assert!(again.into_builder().is_ok(), "it can be changed in place again");
}

#[test]
fn numbers_are_exported_in_place() {
    out::<Int8Type>([1, -2, 3]);
    out::<Int16Type>([1, -2, 3]);
    out::<Int32Type>([1, -2, 3]);
    out::<Int64Type>([1, -2, 3]);
    out::<UInt8Type>([1, 2, 3]);
    out::<UInt16Type>([1, 2, 3]);
    out::<UInt32Type>([1, 2, 3]);
    out::<UInt64Type>([1, 2, u64::MAX]);
    out::<Float16Type>([1.0, 2.0, -3.0].map(f16::from_f32));
    out::<Float32Type>([1.0, 2.0, -3.0]);
    out::<Float64Type>([1.0, 2.0, -3.0]);
}

/// Asserts that numbers with a meaning are refused by name, and exported as integers on request.
#[track_caller]
fn meaning<P: ArrowPrimitiveType<Native: Element + Debug>>(values: [P::Native; 2]) {
    let array = PrimitiveArray::<P>::new(values.to_vec().into(), None);
    let address = array.values().as_ptr().addr();
    let error = array.clone().into_tensor().unwrap_err();
    assert!(error.to_string().contains(&array.data_type().to_string()), "{error}");
    assert!(matches!(error, Error::Meaning { data_type } if data_type == *array.data_type()));
    assert!(matches!(array.to_tensor(), Err(Error::Meaning { .. })));
    let tensor = array.into_storage_tensor().unwrap();
    assert_eq!((tensor.dtype(), tensor.data().addr()), (P::Native::DATA_TYPE, address));
    assert_eq!(tensor.view::<P::Native>().unwrap().to_vec(), values);
    let again = tensor.into_primitive_array::<P>().unwrap();
    assert_eq!((again.values().as_ptr().addr(), &again.values()[..]), (address, &values[..]));
}

#[test]
fn numbers_with_a_meaning_are_exported_on_request() {
    meaning::<Date32Type>([1, 2]);
    meaning::<Date64Type>([1, 2]);
    meaning::<Time32SecondType>([1, 2]);
    meaning::<Time32MillisecondType>([1, 2]);
    meaning::<Time64MicrosecondType>([1, 2]);
    meaning::<Time64NanosecondType>([1, 2]);
    meaning::<TimestampSecondType>([1, 2]);
    meaning::<TimestampMillisecondType>([1, 2]);
    meaning::<TimestampMicrosecondType>([1, 2]);
    meaning::<TimestampNanosecondType>([1, 2]);
    meaning::<DurationSecondType>([1, 2]);
    meaning::<DurationMillisecondType>([1, 2]);
    meaning::<DurationMicrosecondType>([1, 2]);
    meaning::<DurationNanosecondType>([1, 2]);
    meaning::<IntervalYearMonthType>([1, 2]);
    meaning::<Decimal32Type>([1, 2]);
    meaning::<Decimal64Type>([1, 2]);
    meaning::<Decimal128Type>([1, -2]);
}

#[test]
fn other_types_are_refused_by_name() {
    let item = || Arc::new(Field::new_list_field(DataType::Int32, false));
    let fields: Fields =
        ["keys", "values"].map(|name| Field::new(name, DataType::Int32, false)).to_vec().into();
    let entries = Arc::new(Field::new("entries", DataType::Struct(fields), false));
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Decimal256Array::from(vec![i256::ONE])),
        Arc::new(IntervalDayTimeArray::from(vec![IntervalDayTime::new(1, 2)])),
        Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(1, 2, 3)])),
        Arc::new(StringArray::from(vec!["a"])),
        Arc::new(LargeStringArray::from(vec!["a"])),
        Arc::new(StringViewArray::from(vec!["a"])),
        Arc::new(BinaryArray::from(vec![&b"a"[..]])),
        Arc::new(LargeBinaryArray::from(vec![&b"a"[..]])),
        Arc::new(BinaryViewArray::from(vec![&b"a"[..]])),
        Arc::new(FixedSizeBinaryArray::try_from_iter([b"a"].into_iter()).unwrap()),
        Arc::new(NullArray::new(0)),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])])),
        Arc::new(LargeListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])])),
        new_empty_array(&DataType::ListView(item())),
        new_empty_array(&DataType::LargeListView(item())),
        new_empty_array(&DataType::Map(entries, false)),
        new_empty_array(&DataType::Union(UnionFields::empty(), UnionMode::Dense)),
        Arc::new(RunArray::<Int32Type>::from_iter(["a"])),
        Arc::new(DictionaryArray::<Int32Type>::from_iter(["a"])),
        Arc::new(StructArray::from(vec![(
            Arc::new(Field::new("a", DataType::Int32, false)),
            Arc::new(Int32Array::from(vec![1])) as ArrayRef,
        )])),
    ];
    for array in arrays {
        let expected = array.data_type().clone();
        let unsupported = |error: Error| {
            assert!(error.to_string().contains(&expected.to_string()), "{error}");
            assert!(matches!(error, Error::Unsupported { data_type } if data_type == expected));
        };
        unsupported(array.clone().into_tensor().unwrap_err());
        unsupported(array.clone().into_storage_tensor().unwrap_err());
        unsupported(array.to_tensor().unwrap_err());
    }
}

#[test]
fn nulls_are_refused_with_their_count() {
    let array = Int32Array::from(vec![Some(1), None, None, Some(4)]);
    assert!(matches!(array.clone().into_tensor(), Err(Error::Nulls { count: 2 })));
    assert!(matches!(array.clone().into_storage_tensor(), Err(Error::Nulls { count: 2 })));
    assert!(matches!(array.to_tensor(), Err(Error::Nulls { count: 2 })));
    assert!(matches!(array.slice(2, 2).into_tensor(), Err(Error::Nulls { count: 1 })));
    let tensor = array.slice(3, 1).into_tensor().unwrap();
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [4], "the slice is without nulls");
    let no_nulls = NullBuffer::new_valid(2);
    let array = Int32Array::new(vec![1, 2].into(), Some(no_nulls));
    assert_eq!(array.into_tensor().unwrap().shape(), [2], "a null bitmap without nulls");
    let booleans = BooleanArray::from(vec![Some(true), None]);
    assert!(matches!(booleans.to_tensor(), Err(Error::Nulls { count: 1 })));
}

#[test]
fn booleans_are_copied_or_refused() {
    let bits = (0..20).map(|n| n % 3 == 0).collect::<BooleanBuffer>();
    let array = BooleanArray::new(bits, None).slice(3, 10);
    assert!(matches!(array.clone().into_tensor(), Err(Error::Bits)));
    assert!(matches!(array.clone().into_storage_tensor(), Err(Error::Bits)));
    let tensor = array.to_tensor().unwrap();
    let expected: Vec<bool> = (3..13).map(|n| n % 3 == 0).collect();
    assert_eq!(tensor.view::<bool>().unwrap().to_vec(), expected);
    assert_eq!(tensor.access(), Access::Exclusive);
    let again = tensor.to_array().unwrap();
    assert_eq!(again.as_boolean(), &array);
    let list = FixedSizeListArray::new(
        Arc::new(Field::new_list_field(DataType::Boolean, true)),
        5,
        Arc::new(array),
        None,
    );
    assert!(matches!(list.clone().into_tensor(), Err(Error::Bits)));
    let tensor = list.to_tensor().unwrap();
    assert_eq!((tensor.shape(), tensor.strides()), (&[2, 5][..], &[5, 1][..]));
    assert_eq!(tensor.view::<bool>().unwrap().to_vec(), expected);
}

#[test]
fn fixed_size_lists_become_dimensions() {
    let values = Int32Array::from_iter_values(0..24);
    let address = values.values().as_ptr().addr();
    let list = |values: ArrayRef, size| -> ArrayRef {
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        Arc::new(FixedSizeListArray::new(field, size, values, None))
    };
    let nested = list(list(Arc::new(values), 3), 2);
    let tensor = nested.slice(1, 3).into_tensor().unwrap();
    assert_eq!((tensor.shape(), tensor.strides()), (&[3, 2, 3][..], &[6, 3, 1][..]));
    assert_eq!((tensor.data().addr(), tensor.access()), (address + 6 * 4, Access::Immutable));
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), (6..24).collect::<Vec<_>>());
    drop(tensor);
    let tensor = nested.into_tensor().unwrap();
    assert_eq!((tensor.shape(), tensor.data().addr()), (&[4, 2, 3][..], address));
    assert_eq!(tensor.access(), Access::Exclusive, "no other handle has the values");
}

#[test]
fn nulls_at_any_depth_are_refused() {
    let mut builder = FixedSizeListBuilder::new(Int32Builder::new(), 2);
    for (value, present) in [(Some(1), true), (None, true), (Some(3), false)] {
        builder.values().append_option(value);
        builder.values().append_value(0);
        builder.append(present);
    }
    let list = builder.finish();
    assert!(matches!(list.clone().into_tensor(), Err(Error::Nulls { count: 1 })), "a list is null");
    let values_null = list.slice(0, 2);
    assert!(matches!(values_null.into_tensor(), Err(Error::Nulls { count: 1 })), "a value is null");
    assert_eq!(list.slice(0, 1).into_tensor().unwrap().shape(), [1, 2]);
}

#[test]
fn empty_array_becomes_empty_tensor() {
    let tensor = Float64Array::from(Vec::<f64>::new()).into_tensor().unwrap();
    assert_eq!((tensor.shape(), tensor.data().is_null()), (&[0][..], true));
    assert_eq!(tensor.into_array().unwrap().len(), 0);
    let tensor = Int32Array::from(vec![1, 2]).slice(1, 0).into_tensor().unwrap();
    assert_eq!(tensor.into_primitive_array::<Int32Type>().unwrap().len(), 0);
    assert_eq!(BooleanArray::from(Vec::<bool>::new()).to_tensor().unwrap().shape(), [0]);
    for shape in [[0, 3, 2], [3, 0, 2], [2, 3, 0]] {
        let tensor = Tensor::from_parts(Vec::<i16>::new(), shape).unwrap();
        let array = tensor.into_array().unwrap();
        assert_eq!(array.len(), shape[0]);
        let shape = shape.map(|extent| extent as i64);
        assert_eq!(array.into_tensor().unwrap().shape(), shape);
    }
}

#[test]
fn to_tensor_copies_to_another_address() {
    let array = Int32Array::from(vec![1, 2, 3]);
    let tensor = array.to_tensor().unwrap();
    assert_ne!(tensor.data().addr(), array.values().as_ptr().addr());
    assert_eq!(tensor.access(), Access::Exclusive);
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [1, 2, 3]);
}

#[test]
fn buffers_round_trip_as_the_same_buffer() {
    let buffer = Buffer::from_vec(vec![1_u16, 2, 3, 4]);
    let tensor = buffer.clone().into_tensor();
    assert_eq!((tensor.shape(), tensor.dtype()), (&[8][..], dlbridge::DataType::UINT8));
    assert_eq!(tensor.access(), Access::Immutable);
    let part = tensor.slice(0, 2..6).unwrap().into_buffer().unwrap();
    assert!(part.ptr_eq(&buffer.slice_with_length(2, 4)), "a slice of the same buffer");
    drop(buffer);
    assert_eq!(part.into_tensor().access(), Access::Immutable, "it begins inside its allocation");

    let numbers = ScalarBuffer::from(vec![1_i128, 2, 3]);
    let address = numbers.as_ptr().addr();
    let mut tensor = numbers.into_tensor();
    assert_eq!((tensor.access(), tensor.dtype()), (Access::Exclusive, dlbridge::DataType::INT128));
    tensor.view_mut::<i128>().unwrap()[[1]] = -2;
    let tensor = tensor.into_read_only().slice(0, 1..).unwrap();
    let numbers = tensor.into_scalar_buffer::<i128>().unwrap();
    assert_eq!((numbers.as_ptr().addr(), &numbers[..]), (address + 16, &[-2, 3][..]));
}

#[test]
fn shared_buffers_become_immutable_tensors() {
    let foreign = Buffer::from(&b"of another owner"[..]);
    let other = foreign.clone();
    assert_eq!(foreign.into_tensor().access(), Access::Immutable);
    assert_eq!(other.into_tensor().access(), Access::Exclusive);
    let (tensor, _) = dlbridge_testing::foreign_vec(vec![1_u8, 2]);
    let kept = tensor.into_buffer().unwrap();
    assert_eq!(kept.into_tensor().access(), Access::Immutable, "foreign memory");
}
