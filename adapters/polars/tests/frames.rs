//! Data frames to tensors and back: columns in one allocation, and in several.

use dlbridge::{Access, Error as TensorError, Tensor};
use dlbridge_polars::{DataFrameExt, Error, SeriesExt, TensorExt};
use dlbridge_testing::{Layout, foreign_strided, repeat, through_c};
use polars_core::df;
use polars_core::prelude::*;

fn addresses(frame: &DataFrame) -> Vec<usize> {
    let address = |column: &Column| column.i32().unwrap().cont_slice().unwrap().as_ptr().addr();
    frame.columns().iter().map(address).collect()
}

/// Three columns of two rows that begin at the given elements of one series.
fn parts(starts: [i64; 3]) -> (DataFrame, usize) {
    let series = Series::new("a".into(), (0..10).collect::<Vec<i32>>());
    let columns = starts.into_iter().zip(["a", "b", "c"]);
    let columns =
        columns.map(|(start, name)| series.slice(start, 2).with_name(name.into()).into_column());
    let frame = DataFrame::new(2, columns.collect()).unwrap();
    (frame, series.i32().unwrap().cont_slice().unwrap().as_ptr().addr())
}

#[test]
fn columns_at_equal_distances_become_a_tensor() {
    for (starts, stride, expected) in [
        ([0, 2, 4], 2, [0, 2, 4, 1, 3, 5]),
        ([1, 4, 7], 3, [1, 4, 7, 2, 5, 8]),
        ([8, 4, 0], -4, [8, 4, 0, 9, 5, 1]),
        ([3, 3, 3], 0, [3, 3, 3, 4, 4, 4]),
    ] {
        let (frame, base) = parts(starts);
        let tensor = frame.clone().into_tensor().unwrap();
        assert_eq!((tensor.shape(), tensor.strides()), (&[2, 3][..], &[1, stride][..]));
        assert_eq!(tensor.data().addr(), base + starts[0] as usize * 4);
        assert_eq!(tensor.access(), Access::Immutable);
        assert_eq!(tensor.view::<i32>().unwrap().to_vec(), expected);
        let before = addresses(&frame);
        let again = tensor.into_data_frame(["a", "b", "c"]).unwrap();
        assert_eq!(addresses(&again), before);
        assert!(again.equals(&frame));
    }
}

#[test]
fn columns_in_other_allocations_are_refused_and_copied() {
    let (uneven, _) = parts([0, 2, 5]);
    let error = uneven.clone().into_tensor().unwrap_err();
    assert!(matches!(error, Error::UnevenColumns { column: 2, expected: 8, found: 12 }));
    let copy = uneven.to_tensor().unwrap();
    assert_eq!((copy.shape(), copy.strides()), (&[2, 3][..], &[1, 2][..]));
    assert_eq!(copy.view::<i32>().unwrap().to_vec(), [0, 2, 5, 1, 3, 6]);
    assert_eq!(copy.access(), Access::Exclusive);
    let apart = df!("a" => [1, 2], "b" => [3, 4]).unwrap();
    assert!(matches!(apart.clone().into_tensor(), Err(Error::OtherAllocation { column: 1 })));
    let copy = apart.to_tensor().unwrap();
    assert_eq!(copy.view::<i32>().unwrap().to_vec(), [1, 3, 2, 4]);
    let at = copy.data().addr();
    let again = copy.into_data_frame(["a", "b"]).unwrap();
    assert_eq!(addresses(&again), [at, at + 8]);
    assert!(again.equals(&apart));
}

#[test]
fn columns_of_several_chunks_are_copied() {
    let mut frame = df!("a" => [1, 2], "b" => [3, 4]).unwrap();
    frame.vstack_mut(&df!("a" => [5], "b" => [6]).unwrap()).unwrap();
    assert!(matches!(frame.clone().into_tensor(), Err(Error::Chunks { count: 2 })));
    let copy = frame.to_tensor().unwrap();
    assert_eq!(copy.view::<i32>().unwrap().to_vec(), [1, 3, 2, 4, 5, 6]);
}

#[test]
fn columns_of_different_kinds_are_refused() {
    let mixed = df!("a" => [1, 2], "b" => [1.0, 2.0]).unwrap();
    for result in [mixed.clone().into_tensor(), mixed.to_tensor()] {
        let error = result.unwrap_err();
        assert_eq!(
            error.to_string(),
            "column 1 holds f64 and column 0 holds i32; cast them to one type"
        );
    }
    let bools = df!("a" => [true, false], "b" => [true, true]).unwrap();
    assert!(matches!(bools.clone().into_tensor(), Err(Error::Bits)));
    let copy = bools.to_tensor().unwrap();
    assert_eq!(copy.view::<bool>().unwrap().to_vec(), [true, true, false, true]);
    assert!(copy.to_data_frame(["a", "b"]).unwrap().equals(&bools));
    assert!(matches!(copy.into_data_frame(["a", "b"]), Err(Error::Bits)));
    let nulls = df!("a" => [Some(1), None]).unwrap();
    assert!(matches!(nulls.clone().into_tensor(), Err(Error::Nulls { count: 1 })));
    assert!(matches!(nulls.to_tensor(), Err(Error::Nulls { count: 1 })));
    let strings = df!("a" => ["x"]).unwrap();
    assert!(matches!(strings.clone().into_tensor(), Err(Error::Unsupported { .. })));
    assert!(matches!(strings.to_tensor(), Err(Error::Unsupported { .. })));
    let days = Series::new("a".into(), [1]).into_date().into_frame();
    assert!(matches!(days.clone().into_tensor(), Err(Error::Meaning { .. })));
    assert!(matches!(days.to_tensor(), Err(Error::Meaning { .. })));
    let error = days.to_tensor().unwrap_err().to_string();
    assert!(error.contains("column to integers first, with to_physical_repr"), "{error}");
    let integers = days.columns()[0].to_physical_repr().into_frame();
    assert_eq!(integers.to_tensor().unwrap().view::<i32>().unwrap().to_vec(), [1]);
    let one = df!("a" => [1, 2]).unwrap();
    assert_eq!(one.into_tensor().unwrap().strides(), [1, 2], "one column, in Fortran order");
    assert!(matches!(DataFrame::empty().into_tensor(), Err(Error::NoColumns)));
    assert!(matches!(DataFrame::empty().to_tensor(), Err(Error::NoColumns)));
}

#[test]
fn columns_of_a_tensor_are_read_in_place() {
    // Each layout with the strides of the frame's tensor, or `None` if the frame is refused.
    let layouts: [(Layout<'_>, Option<[i64; 2]>); 6] = [
        ((&[3, 2], &[1, 3], 0), Some([1, 3])),
        ((&[2, 3], &[1, 3], 1), None),
        ((&[3, 2], &[1, -3], 3), None),
        ((&[3, 2], &[1, -5], 6), None),
        // Two columns at one address have distance zero, whichever handles have them.
        ((&[3, 2], &[1, 0], 4), Some([1, 0])),
        ((&[1, 3], &[99, 2], 0), None),
    ];
    for access in [Access::Exclusive, Access::Immutable] {
        for ((shape, strides, offset), again) in layouts {
            let (tensor, dropped) =
                foreign_strided((0..12).collect::<Vec<i32>>(), (shape, strides, offset), access);
            let (first, values) = (tensor.data().addr(), tensor.view::<i32>().unwrap().to_vec());
            let names: Vec<String> = (0..shape[1]).map(|nth| format!("column {nth}")).collect();
            let frame = tensor.into_data_frame(names).unwrap();
            let at = |nth| first.wrapping_add_signed(nth * strides[1] as isize * 4);
            assert_eq!(addresses(&frame), (0..shape[1] as isize).map(at).collect::<Vec<_>>());
            assert_eq!(frame.shape(), (shape[0] as usize, shape[1] as usize));
            assert_eq!(frame.columns()[1].name().as_str(), "column 1");
            assert_eq!(frame.to_tensor().unwrap().view::<i32>().unwrap().to_vec(), values);
            match frame.clone().into_tensor() {
                Ok(tensor) => {
                    assert_eq!(tensor.data().addr(), first);
                    assert_eq!(Some(tensor.strides()), again.as_ref().map(|strides| &strides[..]));
                }
                Err(error) => {
                    assert_eq!(again, None);
                    assert!(matches!(error, Error::OtherAllocation { column: 1 }), "{error}");
                }
            }
            let last = frame.columns()[1].as_materialized_series().clone();
            drop(frame);
            assert_eq!(dropped.count(), 0);
            std::thread::spawn(move || drop(last)).join().unwrap();
            assert_eq!(dropped.count(), 1);
        }
    }
}

#[test]
fn unsupported_tensor_as_data_frame_is_refused() {
    let make = |access| foreign_strided(vec![1, 2, 3, 4], (&[2, 2], &[1, 2], 0), access);
    let (tensor, dropped) =
        foreign_strided(vec![1, 2, 3, 4], (&[2, 2], &[2, 1], 0), Access::Exclusive);
    let copy = tensor.to_data_frame(["a", "b"]).unwrap();
    assert_eq!(copy.column("b").unwrap().i32().unwrap().cont_slice().unwrap(), [2, 4]);
    assert!(matches!(tensor.into_data_frame(["a", "b"]), Err(Error::RowStride { stride: 2 })));
    assert_eq!(dropped.count(), 1);
    for access in [Access::Shared, Access::ReadOnly] {
        let (tensor, dropped) = make(access);
        let error = tensor.into_data_frame(["a", "b"]).unwrap_err();
        assert!(matches!(error, Error::Tensor(TensorError::Unstable { .. })), "{error}");
        assert_eq!(dropped.count(), 1);
    }
    let (tensor, dropped) = make(Access::Exclusive);
    let error = tensor.to_data_frame(["a"]).unwrap_err();
    assert!(matches!(error, Error::NameCount { names: 1, columns: 2 }));
    assert!(matches!(
        tensor.into_data_frame(["a"]),
        Err(Error::NameCount { names: 1, columns: 2 })
    ));
    assert_eq!(dropped.count(), 1);
    let (tensor, dropped) = make(Access::Exclusive);
    assert!(matches!(tensor.into_data_frame(["a", "a"]), Err(Error::Polars(_))));
    assert_eq!(dropped.count(), 1);
    for result in
        [Tensor::from(vec![1]).into_data_frame(["a"]), Tensor::from(vec![1]).to_data_frame(["a"])]
    {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Tensor(TensorError::Ndim { expected: 2, found: 1 })));
    }
    let bfloats = Tensor::zeroed(dlbridge::DataType::BFLOAT16, [2, 1]).unwrap();
    assert!(matches!(bfloats.to_data_frame(["a"]), Err(Error::NoPolarsType { .. })));
    assert!(matches!(bfloats.into_data_frame(["a"]), Err(Error::NoPolarsType { .. })));
}

#[test]
fn frames_without_rows_or_columns() {
    for shape in [[0, 2], [2, 0], [0, 0]] {
        let tensor = Tensor::from_parts(Vec::<i32>::new(), shape).unwrap();
        let names = &["a", "b"][..shape[1]];
        let copy = tensor.to_data_frame(names.iter().copied()).unwrap();
        let frame = tensor.into_data_frame(names.iter().copied()).unwrap();
        assert!(frame.equals(&copy));
        assert_eq!(frame.shape(), (shape[0], shape[1]));
        match shape[1] {
            0 => assert!(matches!(frame.into_tensor(), Err(Error::NoColumns))),
            _ => assert_eq!(frame.into_tensor().unwrap().shape(), [0, 2]),
        }
    }
}

#[test]
fn data_frame_round_trip_returns_the_same_frame() {
    let (frame, _) = parts([0, 2, 4]);
    let back = frame.clone().into_tensor().unwrap().try_into_data_frame().unwrap();
    assert!(back.equals(&frame));
    assert_eq!(back.get_column_names(), frame.get_column_names());
    let part = frame.clone().into_tensor().unwrap().slice(1, 1..).unwrap();
    let part = part.try_into_data_frame().unwrap_err();
    assert_eq!(part.view::<i32>().unwrap().to_vec(), [2, 4, 3, 5], "a slice stays a tensor");
    assert_eq!(part.access(), Access::Immutable);
    let again = part.into_data_frame(["b", "c"]).unwrap();
    assert_eq!(addresses(&again), addresses(&frame)[1..]);
    let other = Tensor::from(vec![1.0]).try_into_data_frame().unwrap_err();
    assert_eq!(other.view::<f64>().unwrap().to_vec(), [1.0]);
    assert!(Tensor::from([[true]]).try_into_data_frame().is_err());
}

#[test]
fn slices_of_a_series_become_columns_and_return_its_memory() {
    let tensor = Series::new("a".into(), (0..6).collect::<Vec<i32>>()).into_tensor().unwrap();
    let at = tensor.data().addr();
    let frame = tensor.reshape([2, 3]).unwrap().transpose().into_data_frame(["x", "y"]).unwrap();
    assert_eq!(addresses(&frame), [at, at + 12]);
    let tensor = through_c(frame.into_tensor().unwrap());
    assert_eq!((tensor.shape(), tensor.data().addr()), (&[3, 2][..], at));
    assert!(tensor.try_into_data_frame().is_ok());
}

#[test]
fn polars_loop_of_frames_drops_on_a_small_stack() {
    repeat(Tensor::from([[1_i64, 2]]).transpose(), |tensor| {
        tensor.into_data_frame(["x"]).unwrap().into_tensor().unwrap()
    });
}
