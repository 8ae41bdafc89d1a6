//! Series to tensors and back: address and values for every type of Polars, or its refusal.

use std::fmt::Debug;
use std::sync::Arc;

use dlbridge::{Access, DataType as Dtype, Element, Error as TensorError, Tensor};
use dlbridge_polars::{Error, SeriesExt, TensorExt};
use dlbridge_testing::{
    Layout, foreign_strided, foreign_vec, misaligned, on_cuda, through_c, written_by_another_handle,
};
use half::f16;
use polars_core::prelude::*;
use polars_utils::float16::pf16;

/// The address of the values of a series of one chunk.
fn address<P: PolarsNumericType>(series: &Series) -> usize {
    let array = series.unpack::<P>().unwrap();
    array.cont_slice().unwrap().as_ptr().addr()
}

/// Asserts that numbers are exported in place, whole and sliced, and come back; that elements of a tensor are
/// imported in place; and that the tensor's owner is dropped with the last series.
#[track_caller]
fn both_ways<P, E>(values: [P::Native; 4], elements: [E; 4])
where
    P: PolarsNumericType,
    E: Element + Debug + PartialEq,
    ChunkedArray<P>: IntoSeries,
{
    let series = ChunkedArray::<P>::from_vec("a".into(), values.to_vec()).into_series();
    let at = address::<P>(&series);
    let shared = series.clone();
    let tensor = series.into_tensor().unwrap();
    assert_eq!((tensor.dtype(), tensor.shape()), (E::DATA_TYPE, &[4][..]));
    assert_eq!((tensor.data().addr(), tensor.access()), (at, Access::Immutable));
    assert_eq!(tensor.view::<E>().unwrap().to_vec(), elements);
    drop(tensor);
    let tensor = shared.slice(1, 2).into_tensor().unwrap();
    assert_eq!((tensor.data().addr(), tensor.access()), (at + size_of::<E>(), Access::Immutable));
    assert_eq!(tensor.view::<E>().unwrap().to_vec(), elements[1..3]);
    drop(tensor);
    let copy = shared.to_tensor().unwrap();
    assert_eq!(copy.view::<E>().unwrap().to_vec(), elements);
    assert!(copy.data().addr() != at && copy.access() == Access::Exclusive);
    let tensor = shared.into_tensor().unwrap();
    assert_eq!((tensor.data().addr(), tensor.access()), (at, Access::Exclusive));
    let again = tensor.slice(0, 1..).unwrap().into_series("b").unwrap();
    assert_eq!(address::<P>(&again), at + size_of::<E>());
    assert_eq!((again.name().as_str(), again.dtype()), ("b", &P::get_static_dtype()));
    assert_eq!(again.unpack::<P>().unwrap().cont_slice().unwrap(), &values[1..]);

    for access in [Access::Exclusive, Access::Immutable] {
        let (tensor, dropped) = foreign_strided(elements.to_vec(), (&[2], &[1], 2), access);
        let at = tensor.data().addr();
        let series = tensor.into_series("c").unwrap();
        assert_eq!((address::<P>(&series), series.chunks().len()), (at, 1));
        assert_eq!(series.unpack::<P>().unwrap().cont_slice().unwrap(), &values[2..]);
        let tail = series.slice(1, 1);
        drop(series);
        assert_eq!(dropped.count(), 0);
        let tensor = tail.into_tensor().unwrap();
        assert_eq!(
            (tensor.data().addr(), tensor.access()),
            (at + size_of::<E>(), Access::Immutable)
        );
        std::thread::spawn(move || drop(tensor)).join().unwrap();
        assert_eq!(dropped.count(), 1);
    }
}

#[test]
fn numbers_cross_both_ways_in_place() {
    both_ways::<Int8Type, i8>([1, -2, 3, 4], [1, -2, 3, 4]);
    both_ways::<Int16Type, i16>([1, -2, 3, 4], [1, -2, 3, 4]);
    both_ways::<Int32Type, i32>([1, -2, 3, 4], [1, -2, 3, 4]);
    both_ways::<Int64Type, i64>([1, -2, 3, 4], [1, -2, 3, 4]);
    both_ways::<Int128Type, i128>([1, -2, 3, 4], [1, -2, 3, 4]);
    both_ways::<UInt8Type, u8>([1, 2, 3, 4], [1, 2, 3, 4]);
    both_ways::<UInt16Type, u16>([1, 2, 3, 4], [1, 2, 3, 4]);
    both_ways::<UInt32Type, u32>([1, 2, 3, 4], [1, 2, 3, 4]);
    both_ways::<UInt64Type, u64>([1, 2, 3, 4], [1, 2, 3, 4]);
    both_ways::<UInt128Type, u128>([1, 2, 3, 4], [1, 2, 3, 4]);
    both_ways::<Float32Type, f32>([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]);
    both_ways::<Float64Type, f64>([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]);
    let halves = [1.0, 2.0, 3.0, 4.0].map(f16::from_f32);
    both_ways::<Float16Type, f16>(halves.map(pf16), halves);
}

#[test]
fn numbers_with_a_meaning_are_exported_on_request() {
    let days = || Series::new("a".into(), [1, 2]);
    let long = || Series::new("a".into(), [1_i64, 2]);
    let wide = Series::new("a".into(), [1_i128, 2]);
    let series = [
        days().into_date(),
        long().into_time(),
        long().into_datetime(TimeUnit::Microseconds, None),
        long().into_duration(TimeUnit::Nanoseconds),
        wide.into_decimal(10, 2).unwrap(),
    ];
    for series in series {
        let data_type = series.dtype().clone();
        let error = series.clone().into_tensor().unwrap_err();
        assert!(error.to_string().contains(&data_type.to_string()), "{error}");
        assert!(matches!(error, Error::Meaning { data_type: found } if found == data_type));
        assert!(matches!(series.clone().into_tensors(), Err(Error::Meaning { .. })));
        assert!(matches!(series.to_tensor(), Err(Error::Meaning { .. })));
        let tensor = series.clone().into_storage_tensor().unwrap();
        let stored = series.to_physical_repr().into_owned();
        let expected = stored.into_tensor().unwrap();
        assert_eq!((tensor.dtype(), tensor.data()), (expected.dtype(), expected.data()));
        assert_eq!(tensor.shape(), [2]);
    }
}

#[test]
fn other_types_are_refused_by_name() {
    let categories = Series::new("a".into(), ["x", "y"])
        .cast(&DataType::from_categories(Categories::global()))
        .unwrap();
    let inner = Series::new("a".into(), [1, 2]);
    let lists = Series::new("a".into(), std::slice::from_ref(&inner));
    let array = DataType::Array(Box::new(DataType::Int32), 2);
    let fixed = FrozenCategories::new(["x", "y"]).unwrap();
    let fixed = Series::new("a".into(), ["x"]).cast(&DataType::from_frozen_categories(fixed));
    let structs = StructChunked::from_series("a".into(), 2, [&inner].into_iter()).unwrap();
    let series = [
        Series::new("a".into(), ["x"]),
        Series::new("a".into(), [&b"x"[..]]),
        Series::new_null("a".into(), 2),
        categories,
        fixed.unwrap(),
        lists.cast(&array).unwrap(),
        lists,
        structs.into_series(),
    ];
    for series in series {
        let data_type = series.dtype().clone();
        let unsupported = |error: Error| {
            assert!(error.to_string().contains(&data_type.to_string()), "{error}");
            assert!(
                matches!(&error, Error::Unsupported { data_type: found } if *found == data_type)
            );
        };
        unsupported(series.clone().into_tensor().unwrap_err());
        unsupported(series.clone().into_storage_tensor().unwrap_err());
        unsupported(series.to_tensor().unwrap_err());
    }
    let strings = StringChunked::from_slice("a".into(), &["x"]);
    assert!(matches!(strings.into_tensor(), Err(Error::Unsupported { .. })));
}

#[test]
fn nulls_are_refused_with_their_count() {
    let series = Series::new("a".into(), [Some(1), None, None, Some(4)]);
    assert!(matches!(series.clone().into_tensor(), Err(Error::Nulls { count: 2 })));
    assert!(matches!(series.clone().into_storage_tensor(), Err(Error::Nulls { count: 2 })));
    assert!(matches!(series.to_tensor(), Err(Error::Nulls { count: 2 })));
    assert!(matches!(series.slice(2, 2).into_tensor(), Err(Error::Nulls { count: 1 })));
    let tensor = series.slice(3, 1).into_tensor().unwrap();
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [4], "the slice is without nulls");
    let booleans = Series::new("a".into(), [Some(true), None]);
    assert!(matches!(booleans.to_tensor(), Err(Error::Nulls { count: 1 })));
}

#[test]
fn chunks_become_several_tensors_or_one_copy() {
    let mut series = Series::new("a".into(), [1, 2, 3]);
    series.append(&Series::new("b".into(), Vec::<i32>::new())).unwrap();
    series.append(&Series::new("c".into(), [4, 5])).unwrap();
    let error = series.clone().into_tensor().unwrap_err();
    assert!(matches!(error, Error::Chunks { count: 2 }));
    assert!(error.to_string().starts_with("the values are in 2 chunks"), "{error}");
    assert!(matches!(series.clone().into_storage_tensor(), Err(Error::Chunks { count: 2 })));
    let copy = series.to_tensor().unwrap();
    assert_eq!(copy.view::<i32>().unwrap().to_vec(), [1, 2, 3, 4, 5]);
    let chunks: Vec<Vec<i32>> = series
        .i32()
        .unwrap()
        .downcast_iter()
        .map(|chunk| chunk.values().as_slice().to_vec())
        .collect();
    let places: Vec<usize> =
        series.i32().unwrap().downcast_iter().map(|chunk| chunk.values().as_ptr().addr()).collect();
    let tensors = series.into_tensors().unwrap();
    assert_eq!(tensors.len(), 2);
    let full = (0..chunks.len()).filter(|&nth| !chunks[nth].is_empty());
    for (tensor, nth) in tensors.iter().zip(full) {
        assert_eq!(tensor.view::<i32>().unwrap().to_vec(), chunks[nth]);
        assert_eq!(tensor.data().addr(), places[nth]);
    }
}

#[test]
fn dates_in_chunks_are_tensors_or_copied_as_integers() {
    let days = |values: &[i32]| Series::new("a".into(), values).into_date();
    let mut series = days(&[1, 2]);
    series.append(&days(&[3])).unwrap();
    assert!(matches!(series.clone().into_storage_tensor(), Err(Error::Chunks { count: 2 })));
    assert!(matches!(series.clone().into_tensors(), Err(Error::Meaning { .. })));
    for result in
        [series.clone().into_tensor(), series.clone().into_storage_tensor(), series.to_tensor()]
    {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("to integers first, with to_physical_repr"), "{error}");
    }
    let integers = series.to_physical_repr().into_owned();
    assert_eq!(integers.to_tensor().unwrap().view::<i32>().unwrap().to_vec(), [1, 2, 3]);
    let tensors = integers.into_tensors().unwrap();
    assert_eq!(tensors.iter().map(Tensor::len).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn booleans_are_copied_or_refused() {
    let mut series = Series::new("a".into(), (0..20).map(|n| n % 3 == 0).collect::<Vec<_>>());
    series = series.slice(3, 10);
    series.append(&Series::new("b".into(), [true, true])).unwrap();
    assert!(matches!(series.clone().into_tensor(), Err(Error::Bits)));
    assert!(matches!(series.clone().into_storage_tensor(), Err(Error::Bits)));
    let tensor = series.to_tensor().unwrap();
    let expected: Vec<bool> = (3..13).map(|n| n % 3 == 0).chain([true, true]).collect();
    assert_eq!(tensor.view::<bool>().unwrap().to_vec(), expected);
    assert!(series.bool().unwrap().to_tensor().is_ok());
    assert!(tensor.to_series("a").unwrap().equals(&series));
    assert!(matches!(tensor.into_series("a"), Err(Error::Bits)));
}

#[test]
fn empty_series_becomes_empty_tensor() {
    let tensor = Series::new("a".into(), Vec::<f64>::new()).into_tensor().unwrap();
    assert_eq!((tensor.shape(), tensor.dtype()), (&[0][..], Dtype::FLOAT64));
    assert_eq!(tensor.into_series("a").unwrap().len(), 0);
    let tensor = Series::new("a".into(), [1, 2]).slice(1, 0).into_tensor().unwrap();
    assert_eq!(tensor.shape(), [0]);
    assert_eq!(Series::new("a".into(), Vec::<bool>::new()).to_tensor().unwrap().shape(), [0]);
    let (tensor, dropped) = foreign_strided(vec![1_i64], (&[0], &[1], 1), Access::Shared);
    assert_eq!((tensor.into_series("a").unwrap().len(), dropped.count()), (0, 1));
}

#[test]
fn chunked_array_converts_like_a_series() {
    let array = Int32Chunked::from_vec("a".into(), vec![1, 2, 3]);
    let at = array.cont_slice().unwrap().as_ptr().addr();
    assert_eq!(array.to_tensor().unwrap().view::<i32>().unwrap().to_vec(), [1, 2, 3]);
    assert_eq!(array.clone().into_tensors().unwrap()[0].access(), Access::Immutable);
    let mut tensor = array.into_tensor().unwrap();
    tensor.view_mut::<i32>().unwrap()[[1]] = 20;
    let series = tensor.into_series("b").unwrap();
    assert_eq!((address::<Int32Type>(&series), series.sum::<i32>().unwrap()), (at, 24));
    let array = series.i32().unwrap().clone();
    assert_eq!(array.into_storage_tensor().unwrap().data().addr(), at);
}

fn refused(result: Result<impl Debug, Error>) -> TensorError {
    match result.unwrap_err() {
        Error::Tensor(error) => error,
        error => panic!("{error:?} is not the tensor's"),
    }
}

#[test]
#[cfg_attr(miri, ignore = "allocations never fail under Miri")]
fn repeated_elements_beyond_memory_are_refused() {
    const BYTES: usize = 1 << 45;
    let bools = Tensor::from_parts_strided(vec![true], [BYTES], [0], 0).unwrap();
    assert_eq!(
        refused(bools.to_series("a")),
        TensorError::OutOfMemory { bytes: BYTES, for_copy: true }
    );
    let bytes = Tensor::from_parts_strided(vec![1_u8], [BYTES], [0], 0).unwrap();
    assert_eq!(
        refused(bytes.to_series("a")),
        TensorError::OutOfMemory { bytes: BYTES, for_copy: true }
    );
    let bools = Tensor::from_parts_strided(vec![true], [BYTES, 1], [0, 0], 0).unwrap();
    let error = refused(bools.to_data_frame(["a"]));
    assert_eq!(error, TensorError::OutOfMemory { bytes: BYTES, for_copy: true });
}

#[test]
fn noncontiguous_tensor_is_refused_and_dropped_or_copied() {
    let layouts: [(Layout<'_>, &[i32]); 3] = [
        ((&[3], &[2], 1), &[1, 3, 5]),
        ((&[3], &[-1], 5), &[5, 4, 3]),
        ((&[3], &[0], 4), &[4, 4, 4]),
    ];
    for (layout, expected) in layouts {
        let (tensor, dropped) =
            foreign_strided((0..6).collect::<Vec<i32>>(), layout, Access::Immutable);
        let copy = tensor.to_series("a").unwrap();
        assert_eq!(copy.i32().unwrap().cont_slice().unwrap(), expected);
        let stride = layout.1[0];
        assert!(
            matches!(tensor.into_series("a"), Err(Error::RowStride { stride: s }) if s == stride)
        );
        assert_eq!(dropped.count(), 1);
    }
    let (tensor, _) = foreign_strided(vec![1, 2], (&[1], &[-9], 1), Access::Immutable);
    assert_eq!(tensor.into_series("a").unwrap().len(), 1, "the stride of extent 1 does not matter");
}

#[test]
fn unsupported_tensor_as_series_is_refused() {
    for dtype in [Dtype::BFLOAT16, Dtype::COMPLEX64, Dtype::FLOAT8_E5M2, Dtype::INT32.with_lanes(2)]
    {
        let error = Tensor::zeroed(dtype, [2]).unwrap().into_series("a").unwrap_err();
        assert!(error.to_string().contains(&dtype.to_string()), "{error}");
        assert!(matches!(error, Error::NoPolarsType { dtype: found } if found == dtype));
        let copied = Tensor::zeroed(dtype, [2]).unwrap().to_series("a");
        assert!(matches!(copied, Err(Error::NoPolarsType { .. })));
    }
    for shape in [&[][..], &[1, 1]] {
        let (tensor, dropped) =
            foreign_strided(vec![1], (shape, &[1, 1][..shape.len()], 0), Access::Exclusive);
        let ndim = TensorError::Ndim { expected: 1, found: shape.len() };
        assert_eq!(refused(tensor.to_series("a")), ndim);
        assert_eq!(refused(tensor.into_series("a")), ndim);
        assert_eq!(dropped.count(), 1);
    }
    let (tensor, dropped) = foreign_strided(vec![1], (&[1], &[1], 0), Access::Shared);
    assert_eq!(tensor.to_series("a").unwrap().len(), 1, "no other code has the copy");
    drop(tensor);
    assert_eq!(dropped.count(), 1);
    for access in [Access::Shared, Access::ReadOnly] {
        let (tensor, dropped) = foreign_strided(vec![1], (&[1], &[1], 0), access);
        assert_eq!(refused(tensor.into_series("a")), TensorError::Unstable { access });
        assert_eq!(dropped.count(), 1);
        let (tensor, _) = foreign_strided(vec![1], (&[1], &[1], 0), access);
        // SAFETY: nothing writes the vector.
        let tensor = unsafe { tensor.assume_immutable() };
        assert_eq!(tensor.into_series("a").unwrap().len(), 1);
    }
    let (tensor, dropped) = on_cuda(Access::Exclusive);
    let device = tensor.device();
    assert_eq!(refused(tensor.to_series("a")), TensorError::NotHostAccessible { device });
    assert_eq!(refused(tensor.into_series("a")), TensorError::NotHostAccessible { device });
    assert_eq!(dropped.count(), 1);
    let (tensor, dropped) = misaligned();
    let address = tensor.data().addr();
    assert_eq!(tensor.to_series("a").unwrap().len(), 2, "a copy is aligned");
    assert_eq!(refused(tensor.into_series("a")), TensorError::Misaligned { address, required: 4 });
    assert_eq!(dropped.count(), 1);
}

#[test]
fn series_round_trip_through_c_and_keep_other_holders() {
    let series = Series::new("a".into(), [1, 2, 3]);
    let at = address::<Int32Type>(&series);
    let tensor = through_c(series.into_tensor().unwrap());
    let tensor = tensor.try_into_immutable().unwrap().into_shared();
    let shared = tensor.share().into_series("a").unwrap();
    assert_eq!(address::<Int32Type>(&shared), at);
    let last = tensor.share();
    drop((tensor, shared));
    let series = last.into_series("a").unwrap();
    assert_eq!(address::<Int32Type>(&series), at);
    let tensor = series.into_tensor().unwrap();
    assert_eq!(tensor.access(), Access::Exclusive, "the last holder gets the memory itself");
    let (tensor, dropped) = foreign_vec(vec![1, 2]);
    let managed = tensor.into_series("a").unwrap().into_tensor().unwrap().into_raw();
    assert_eq!(dropped.count(), 0);
    // SAFETY: `into_raw` just exported it, and nothing else imports it.
    drop(unsafe { Tensor::from_raw(managed) }.unwrap());
    assert_eq!(dropped.count(), 1);
}

#[test]
fn read_only_tensor_that_another_handle_writes_is_refused() {
    let (read_only, writer) = written_by_another_handle();
    let access = Access::ReadOnly;
    assert_eq!(refused(read_only.into_series("a")), TensorError::Unstable { access });
    drop(writer);
}

#[test]
fn shared_rust_data_needs_no_promise() {
    for tensor in [Tensor::from(Arc::<[i32]>::from([1, 2])), Tensor::from(&[1_i32, 2][..])] {
        let at = tensor.data().addr();
        assert_eq!(address::<Int32Type>(&tensor.into_series("a").unwrap()), at);
    }
}

#[test]
fn times_cross_as_counts_and_are_cast_back() {
    let counts = [Some(5_i64), Some(-3)];
    for data_type in [
        DataType::Datetime(TimeUnit::Microseconds, None),
        DataType::Datetime(TimeUnit::Nanoseconds, None),
        DataType::Duration(TimeUnit::Milliseconds),
    ] {
        let series = Series::new("a".into(), counts).cast(&data_type).unwrap();
        let tensor = series.clone().into_storage_tensor().unwrap();
        assert_eq!(tensor.view::<i64>().unwrap().to_vec(), [5, -3]);
        let again = tensor.into_series("a").unwrap().cast(&data_type).unwrap();
        assert!(again.equals(&series));
        assert_eq!(again.dtype(), &data_type);
    }
}
