//! Batches to tensors and back: columns in one allocation, and in several.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema};
use dlbridge::{Access, Error as TensorError, Tensor};
use dlbridge_arrow::{ArrayExt, Error, TensorExt};
use dlbridge_testing::{foreign_strided, foreign_vec, repeat, through_c};

fn batch(columns: impl IntoIterator<Item = ArrayRef>) -> RecordBatch {
    let names = ["a", "b", "c", "d"];
    RecordBatch::try_from_iter(names.into_iter().zip(columns)).unwrap()
}

/// Three columns of two rows that begin at the given elements of one buffer.
fn parts(starts: [usize; 3]) -> (RecordBatch, usize) {
    let buffer = ScalarBuffer::from((0..10).collect::<Vec<i32>>());
    let column = |start| Arc::new(Int32Array::new(buffer.slice(start, 2), None)) as ArrayRef;
    (batch(starts.map(column)), buffer.as_ptr().addr())
}

fn addresses(batch: &RecordBatch) -> Vec<usize> {
    batch.columns().iter().map(|c| c.as_primitive::<Int32Type>().values().as_ptr().addr()).collect()
}

#[test]
fn columns_at_equal_distances_become_a_tensor() {
    for (starts, stride, expected) in [
        ([0, 2, 4], 2, [0, 2, 4, 1, 3, 5]),
        ([1, 4, 7], 3, [1, 4, 7, 2, 5, 8]),
        ([8, 4, 0], -4, [8, 4, 0, 9, 5, 1]),
        ([3, 3, 3], 0, [3, 3, 3, 4, 4, 4]),
        ([3, 4, 5], 1, [3, 4, 5, 4, 5, 6]),
    ] {
        let (batch, base) = parts(starts);
        let tensor = batch.clone().into_tensor().unwrap();
        assert_eq!((tensor.shape(), tensor.strides()), (&[2, 3][..], &[1, stride][..]));
        assert_eq!(tensor.data().addr(), base + starts[0] * 4);
        assert_eq!(tensor.access(), Access::Immutable);
        assert_eq!(tensor.view::<i32>().unwrap().to_vec(), expected);
        let before = addresses(&batch);
        let again = tensor.into_record_batch(["a", "b", "c"]).unwrap();
        assert_eq!((addresses(&again), again.columns()), (before, batch.columns()));
    }
}

#[test]
fn columns_in_other_allocations_are_refused_and_copied() {
    let (uneven, _) = parts([0, 2, 5]);
    let error = uneven.clone().into_tensor().unwrap_err();
    let expected =
        "column 2 begins 12 bytes after the one before it, and column 1 8 after column 0";
    assert!(error.to_string().starts_with(expected), "{error}");
    assert!(matches!(error, Error::UnevenColumns { column: 2, expected: 8, found: 12 }));
    let copy = uneven.to_tensor().unwrap();
    assert_eq!((copy.shape(), copy.strides()), (&[2, 3][..], &[1, 2][..]));
    assert_eq!(copy.view::<i32>().unwrap().to_vec(), [0, 2, 5, 1, 3, 6]);
    assert_eq!(copy.access(), Access::Exclusive);

    let column = |values: [i32; 2]| Arc::new(Int32Array::from(values.to_vec())) as ArrayRef;
    let apart = batch([column([1, 2]), column([3, 4])]);
    assert!(matches!(apart.clone().into_tensor(), Err(Error::OtherAllocation { column: 1 })));
    let copy = apart.to_tensor().unwrap();
    assert_eq!(copy.view::<i32>().unwrap().to_vec(), [1, 3, 2, 4]);
    let again = copy.into_record_batch(["a", "b"]).unwrap();
    assert_eq!(again.columns(), apart.columns());
}

#[test]
fn dates_in_other_allocations_are_copied_as_integers() {
    let days = |values: [i32; 2]| Date32Array::from(values.to_vec());
    let columns = [days([1, 2]), days([3, 4])];
    let apart = batch(columns.clone().map(|column| Arc::new(column) as ArrayRef));
    let uneven = ScalarBuffer::from((0..10).collect::<Vec<i32>>());
    let uneven = batch(
        [0, 2, 5].map(|start| Arc::new(Date32Array::new(uneven.slice(start, 2), None)) as ArrayRef),
    );
    for result in [
        apart.clone().into_tensor(),
        apart.to_tensor(),
        apart.into_storage_tensor(),
        uneven.into_storage_tensor(),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("cast") && error.contains("to integers first"), "{error}");
    }
    let integers = columns.map(|column| column.reinterpret_cast::<Int32Type>());
    let integers = batch(integers.map(|column| Arc::new(column) as ArrayRef));
    assert_eq!(integers.to_tensor().unwrap().view::<i32>().unwrap().to_vec(), [1, 3, 2, 4]);
}

#[test]
fn decimals_at_a_distance_of_whole_elements_are_a_tensor() {
    let buffer = Buffer::from_vec(vec![1_i128, 2, 3, 4]);
    let column = |start| {
        let values = ScalarBuffer::<i128>::from(buffer.slice_with_length(start, 16));
        Arc::new(Decimal128Array::new(values, None)) as ArrayRef
    };
    let tensor = batch([column(0), column(32)]).into_storage_tensor().unwrap();
    assert_eq!((tensor.shape(), tensor.strides()), (&[1, 2][..], &[1, 2][..]));
    assert_eq!(tensor.data().addr(), buffer.as_ptr().addr());
    assert_eq!(tensor.view::<i128>().unwrap().to_vec(), [1, 3]);
}

#[test]
fn columns_of_different_kinds_are_refused() {
    let ints = || Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef;
    let floats = || Arc::new(Float32Array::from(vec![1.0, 2.0])) as ArrayRef;
    let bools = || Arc::new(BooleanArray::from(vec![true, false])) as ArrayRef;
    let mixed = batch([ints(), floats()]);
    for result in [mixed.clone().into_tensor(), mixed.to_tensor()] {
        let error = result.unwrap_err();
        assert_eq!(
            error.to_string(),
            "column 1 holds Float32 and column 0 holds Int32; cast them to one type"
        );
    }
    let mixed = batch([bools(), ints()]);
    assert!(matches!(mixed.to_tensor(), Err(Error::ColumnTypes { column: 1, .. })));
    assert!(matches!(batch([bools()]).into_tensor(), Err(Error::Bits)));
    let copy = batch([bools(), bools()]).to_tensor().unwrap();
    assert_eq!(copy.view::<bool>().unwrap().to_vec(), [true, true, false, false]);
    let nulls = Arc::new(Int32Array::from(vec![Some(1), None])) as ArrayRef;
    assert!(matches!(batch([ints(), nulls.clone()]).into_tensor(), Err(Error::Nulls { count: 1 })));
    assert!(matches!(batch([ints(), nulls]).to_tensor(), Err(Error::Nulls { count: 1 })));
    let lists = Tensor::from([[1, 2]]).into_array().unwrap();
    assert!(matches!(batch([lists.clone()]).into_tensor(), Err(Error::Unsupported { .. })));
    assert!(matches!(batch([lists]).to_tensor(), Err(Error::Unsupported { .. })));
    let days = batch([Arc::new(Date32Array::from(vec![1, 2])) as ArrayRef]);
    assert!(matches!(days.clone().into_tensor(), Err(Error::Meaning { .. })));
    assert!(matches!(days.to_tensor(), Err(Error::Meaning { .. })));
    assert_eq!(
        days.into_storage_tensor().unwrap().strides(),
        [1, 2],
        "one column, in Fortran order"
    );
    let none = RecordBatch::new_empty(Arc::new(Schema::empty()));
    assert!(matches!(none.clone().into_tensor(), Err(Error::NoColumns)));
    assert!(matches!(none.to_tensor(), Err(Error::NoColumns)));
}

#[test]
fn lists_of_booleans_as_columns_are_refused() {
    let bools = || Arc::new(BooleanArray::from(vec![true, false])) as ArrayRef;
    let lists = || Tensor::from([[true], [false]]).to_array().unwrap();
    let mixed = batch([bools(), lists()]);
    let mixed_types = |result| match result {
        Err(Error::ColumnTypes { column: 1, first: DataType::Boolean, found }) => {
            assert_eq!(&found, lists().data_type());
        }
        other => panic!("{other:?}"),
    };
    mixed_types(mixed.to_tensor());
    let strings = Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef;
    let result = batch([bools(), strings]).to_tensor();
    assert!(matches!(result, Err(Error::ColumnTypes { column: 1, .. })));
    let nulls = Arc::new(BooleanArray::from(vec![Some(true), None])) as ArrayRef;
    assert!(matches!(batch([bools(), nulls]).to_tensor(), Err(Error::Nulls { count: 1 })));
    for result in [batch([lists()]).into_tensor(), batch([lists(), lists()]).to_tensor()] {
        assert!(matches!(result, Err(Error::Unsupported { .. })), "{result:?}");
    }
}

#[test]
fn columns_of_a_tensor_are_read_in_place() {
    let layouts: [(&[i64], &[i64], usize, bool); 6] = [
        (&[3, 2], &[1, 3], 0, true),
        (&[2, 3], &[1, 3], 1, false),
        (&[3, 2], &[1, -3], 3, true),
        (&[3, 2], &[1, -5], 6, false),
        (&[3, 2], &[1, 0], 4, true),
        (&[1, 3], &[99, 2], 0, false),
    ];
    for access in [Access::Exclusive, Access::Immutable] {
        for (shape, strides, offset, touch) in layouts {
            let (tensor, dropped) =
                foreign_strided((0..12).collect::<Vec<i32>>(), (shape, strides, offset), access);
            let (first, values) = (tensor.data().addr(), tensor.view::<i32>().unwrap().to_vec());
            let names: Vec<String> = (0..shape[1]).map(|nth| format!("column {nth}")).collect();
            let batch = tensor.into_record_batch(names).unwrap();
            let at = |nth| first.wrapping_add_signed(nth * strides[1] as isize * 4);
            assert_eq!(addresses(&batch), (0..shape[1] as isize).map(at).collect::<Vec<_>>());
            assert_eq!((batch.num_rows() as i64, batch.num_columns() as i64), (shape[0], shape[1]));
            assert_eq!(batch.schema().field(1).name(), "column 1");
            assert!(!batch.schema().field(1).is_nullable());
            let copy = batch.to_tensor().unwrap();
            assert_eq!(copy.view::<i32>().unwrap().to_vec(), values);
            match batch.clone().into_tensor() {
                Ok(tensor) => {
                    assert!(touch);
                    assert_eq!((tensor.data().addr(), tensor.strides()), (first, strides));
                }
                Err(error) => {
                    assert!(!touch && matches!(error, Error::OtherAllocation { column: 1 }));
                }
            }
            let last = batch.column(batch.num_columns() - 1).clone();
            assert_eq!(dropped.count(), 0);
            drop(batch);
            assert_eq!(dropped.count(), 0);
            std::thread::spawn(move || drop(last)).join().unwrap();
            assert_eq!(dropped.count(), 1);
        }
    }
}

#[test]
fn rows_in_c_order_are_refused_and_copied() {
    let (tensor, dropped) =
        foreign_strided(vec![1, 2, 3, 4], (&[2, 2], &[2, 1], 0), Access::Exclusive);
    assert!(matches!(tensor.into_record_batch(["a", "b"]), Err(Error::RowStride { stride: 2 })));
    assert_eq!(dropped.count(), 1);
    let tensor = Tensor::from([[1, 2], [3, 4]]);
    let batch = tensor.to_record_batch(["a", "b"]).unwrap();
    assert_eq!(batch.column(0).as_primitive::<Int32Type>().values()[..], [1, 3]);
    assert_eq!(batch.column(1).as_primitive::<Int32Type>().values()[..], [2, 4]);
    let bools = Tensor::from([[true, false], [true, true]]).to_record_batch(["a", "b"]).unwrap();
    assert_eq!(bools.column(1).as_boolean(), &BooleanArray::from(vec![false, true]));
}

#[test]
fn names_and_dimensions_are_checked() {
    let make = || Tensor::from([[1, 2], [3, 4]]).transpose();
    let error = make().into_record_batch(["a"]).unwrap_err();
    assert!(matches!(error, Error::NameCount { names: 1, columns: 2 }));
    let error = make().to_record_batch(["a", "b", "c"]).unwrap_err();
    assert!(matches!(error, Error::NameCount { names: 3, columns: 2 }));
    let ndim = |result: Result<RecordBatch, Error>| match result.unwrap_err() {
        Error::Tensor(error) => assert_eq!(error, TensorError::Ndim { expected: 2, found: 1 }),
        error => panic!("{error:?}"),
    };
    ndim(Tensor::from(vec![1]).into_record_batch(["a"]));
    ndim(Tensor::from(vec![1]).to_record_batch(["a"]));
}

#[test]
fn names_are_counted_before_columns_are_made() {
    const WIDE: usize = 1 << 44;
    let empty = || Tensor::from_parts(Vec::<i32>::new(), [0, WIDE]).unwrap();
    let repeated = || Tensor::from_parts_strided(vec![1_i32], [1, WIDE], [0, 0], 0).unwrap();
    for result in [
        empty().into_record_batch(["a"]),
        empty().to_record_batch(["a"]),
        repeated().into_record_batch(["a"]),
        repeated().to_record_batch(["a"]),
    ] {
        assert!(matches!(result, Err(Error::NameCount { names: 1, columns: WIDE })));
    }
}

#[test]
fn batches_without_rows_or_columns() {
    for shape in [[0, 2], [2, 0], [0, 0]] {
        let tensor = Tensor::from_parts(Vec::<i32>::new(), shape).unwrap();
        let names = &["a", "b"][..shape[1]];
        let copy = tensor.to_record_batch(names.iter().copied()).unwrap();
        let batch = tensor.into_record_batch(names.iter().copied()).unwrap();
        assert_eq!(batch, copy);
        assert_eq!([batch.num_rows(), batch.num_columns()], shape);
        match shape[1] {
            0 => assert!(matches!(batch.into_tensor(), Err(Error::NoColumns))),
            _ => assert_eq!(batch.into_tensor().unwrap().shape(), [0, 2]),
        }
    }
}

#[test]
fn batch_round_trip_returns_the_same_batch() {
    let (batch, _) = parts([0, 2, 4]);
    let schema = Schema::new_with_metadata(
        ["x", "y", "z"].map(|name| Field::new(name, DataType::Int32, true)).to_vec(),
        [("key".to_owned(), "value".to_owned())]
            .into_iter()
            .collect::<std::collections::HashMap<_, _>>(),
    );
    let batch = RecordBatch::try_new(Arc::new(schema), batch.columns().to_vec()).unwrap();
    let back = batch.clone().into_tensor().unwrap().try_into_record_batch().unwrap();
    assert_eq!(back, batch, "with its schema");
    let part = batch.clone().into_tensor().unwrap().slice(1, 1..).unwrap();
    let part = part.try_into_record_batch().unwrap_err();
    assert_eq!(part.view::<i32>().unwrap().to_vec(), [2, 4, 3, 5], "a slice stays a tensor");
    assert_eq!(part.access(), Access::Immutable);
    let again = part.into_record_batch(["b", "c"]).unwrap();
    assert_eq!(again.columns(), &batch.columns()[1..]);
    let turned = batch.into_tensor().unwrap().transpose().insert_axis(0).unwrap();
    assert_eq!(turned.try_into_record_batch().unwrap_err().shape(), [1, 3, 2]);
    let (other, dropped) = foreign_vec(vec![1_i32]);
    let other = other.try_into_record_batch().unwrap_err();
    assert_eq!((other.shape(), dropped.count()), (&[1][..], 0));
}

#[test]
fn batches_round_trip_through_c() {
    let (tensor, dropped) =
        foreign_strided(vec![1, 2, 3, 4], (&[2, 2], &[1, 2], 0), Access::Exclusive);
    let batch = tensor.into_record_batch(["a", "b"]).unwrap();
    let tensor = through_c(batch.clone().into_tensor().unwrap());
    assert_eq!(tensor.try_into_record_batch().unwrap(), batch);
    assert_eq!(dropped.count(), 0);
    drop(batch);
    assert_eq!(dropped.count(), 1);
}

#[test]
fn arrow_loop_of_batches_drops_on_a_small_stack() {
    repeat(Tensor::from([[1_i64, 2]]).transpose(), |tensor| {
        tensor.into_record_batch(["x"]).unwrap().into_tensor().unwrap()
    });
}
