//! Matrices of faer become tensors and come back: the same memory, the same values. Every path frees all memory once: an
//! allocator counts what the test's thread does.

use dlbridge::{Access, DataType, Element, Tensor};
use dlbridge_faer::MatrixExt;
use dlbridge_testing::{Counting, allocations, consume, through_c};
use faer::{Col, Mat, c64, col, mat};

#[test]
fn matrix_round_trips_in_place() {
    let matrix = Mat::from_fn(3, 4, |i, j| (10 * i + j) as f32);
    let (first, apart) = (matrix.as_ptr().addr(), matrix.col_stride() as i64);
    assert!(apart > 3, "faer pads the columns");
    assert_eq!(matrix.as_tensor_ref().strides(), [1, apart]);
    assert_eq!(matrix.as_tensor_ref().data().addr(), first);
    let same = matrix.clone();

    let tensor = matrix.into_tensor();
    assert_eq!((tensor.shape(), tensor.strides()), (&[3, 4][..], &[1, apart][..]));
    assert_eq!((tensor.dtype(), tensor.access()), (DataType::FLOAT32, Access::Exclusive));
    assert_eq!(tensor.data().addr(), first);
    let copy = tensor.to_copy().unwrap();
    assert!(copy.view::<f32>().unwrap().iter().eq(tensor.view::<f32>().unwrap().iter()));
    let tensor = through_c(tensor);
    let tensor = tensor.try_into_owner::<Mat<f64>>().unwrap_err();
    let matrix = tensor.try_into_owner::<Mat<f32>>().unwrap();
    assert_eq!((matrix.as_ptr().addr(), matrix), (first, same));
}

#[test]
fn column_round_trips_in_place() {
    let column = col![1.0, 2.0, 3.0];
    let first = column.as_ptr().addr();
    assert_eq!(column.as_tensor_ref().view::<f64>().unwrap().to_vec(), [1.0, 2.0, 3.0]);
    let mut tensor = column.into_tensor();
    assert_eq!((tensor.shape(), tensor.strides()), (&[3][..], &[1][..]));
    assert_eq!(tensor.data().addr(), first);
    tensor.view_mut::<f64>().unwrap()[[1]] = 20.0;
    assert_eq!(tensor.try_into_owner::<Col<f64>>().unwrap(), col![1.0, 20.0, 3.0]);
}

#[test]
fn matrices_without_elements() {
    for (rows, columns) in [(0, 0), (0, 3), (3, 0)] {
        let tensor = Mat::<f64>::zeros(rows, columns).into_tensor();
        assert_eq!(tensor.shape(), [rows as i64, columns as i64]);
        assert!(tensor.data().is_null());
        assert_eq!(tensor.try_into_owner::<Mat<f64>>().unwrap().ncols(), columns);
    }
    assert!(Mat::<f64>::new().as_tensor_ref().is_empty());
    assert!(Col::<f64>::zeros(0).into_tensor().is_empty());
}

#[test]
fn every_element_type_round_trips() {
    fn both_ways<T: Element + PartialEq + std::fmt::Debug>(elements: [T; 4]) {
        let matrix = Mat::from_fn(2, 2, |i, j| elements[2 * i + j]);
        assert_eq!(matrix.as_tensor_ref().view::<T>().unwrap().to_vec(), elements);
        let tensor = matrix.into_tensor();
        assert_eq!(tensor.dtype(), T::DATA_TYPE);
        assert_eq!(tensor.view::<T>().unwrap().to_vec(), elements);
        assert!(tensor.try_into_owner::<Mat<T>>().is_ok());
    }
    both_ways([1.0_f32, 2.0, 3.0, 4.0]);
    both_ways([1_i64, -2, 3, -4]);
    both_ways([1_u8, 2, 3, 4]);
    both_ways([1.0, 2.0, 3.0, 4.0].map(|x| c64::new(x, -x)));
}

/// Exports `bool` read-only, so that consumers cannot write invalid bytes.
#[test]
fn matrix_of_bool_is_borrowed_only() {
    let matrix = Mat::from_fn(2, 2, |i, j| i == j);
    let tensor = matrix.as_tensor_ref();
    assert_eq!(tensor.view::<bool>().unwrap().to_vec(), [true, false, false, true]);
}

#[test]
fn slice_of_a_matrix_returns_the_whole_matrix() {
    let tensor = mat![[1, 2, 3], [4, 5, 6]].into_tensor().slice(1, 1..).unwrap();
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [2, 3, 5, 6]);
    assert_eq!(tensor.try_into_owner::<Mat<i32>>().unwrap(), mat![[1, 2, 3], [4, 5, 6]]);
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn export_allocates_once_and_taking_back_allocates_nothing() {
    let matrix = || Mat::<f64>::zeros(2, 3);
    let back = |tensor: Tensor| drop(tensor.try_into_owner::<Mat<f64>>().unwrap());
    assert_eq!(allocations(|| drop(matrix())), 1);
    assert_eq!(allocations(|| drop(matrix().into_tensor())), 2);
    assert_eq!(allocations(|| back(matrix().into_tensor())), 2);
    assert_eq!(allocations(|| drop(matrix().as_tensor_ref())), 1);
    let through_c = || {
        back(through_c(matrix().into_tensor()));
    };
    assert_eq!(allocations(through_c), 2);
}

#[test]
fn consumer_frees_the_matrix() {
    allocations(|| {
        consume(Col::<f64>::zeros(3).into_tensor());
    });
}

#[test]
fn refusals_free_everything_once() {
    allocations(|| {
        let tensor = Mat::<f64>::zeros(2, 3).into_tensor();
        let tensor = tensor.try_into_owner::<Mat<f32>>().unwrap_err();
        drop(tensor.try_into_owner::<Col<f64>>().unwrap_err());
    });
}
