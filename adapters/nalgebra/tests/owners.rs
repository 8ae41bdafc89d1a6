//! Matrices become tensors and come back: the same memory and the same values, or the tensor again. Every path frees all
//! memory once: an allocator counts what the test's thread does.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use dlbridge::{Access, DataType, Element, RawParts, Tensor};
use dlbridge_nalgebra::MatrixExt;
use dlbridge_testing::{Counting, allocations, consume, through_c};
use nalgebra::{
    Complex, DMatrix, DVector, Matrix2, Matrix2x3, Matrix3xX, MatrixXx3, RowDVector, RowVector3,
    SMatrix, Vector3, dmatrix, dvector, matrix, vector,
};

/// Asserts the strides of a matrix on the heap, and that it comes back at the same address.
fn goes_and_returns<M>(matrix: M, first: *const f64, shape: &[i64], strides: &[i64])
where
    M: MatrixExt + Clone + PartialEq + Debug,
{
    let same = matrix.clone();
    assert_eq!(same.as_tensor_ref().shape(), shape);
    assert_eq!(same.as_tensor_ref().strides(), strides);
    let tensor = matrix.into_tensor();
    assert_eq!((tensor.shape(), tensor.strides()), (shape, strides));
    assert_eq!((tensor.dtype(), tensor.access()), (DataType::FLOAT64, Access::Exclusive));
    assert_eq!(tensor.data().addr(), first.addr(), "no element has moved");
    let back = M::try_from_tensor(tensor).unwrap();
    assert_eq!(back, same);
    assert_eq!(back.as_tensor_ref().data().addr(), first.addr());
}

#[test]
fn matrices_on_the_heap_round_trip_in_place() {
    let m = dmatrix![1.0, 2.0, 3.0; 4.0, 5.0, 6.0];
    let first = m.as_ptr();
    goes_and_returns(m, first, &[2, 3], &[1, 2]);
    let v = dvector![1.0, 2.0, 3.0];
    let first = v.as_ptr();
    goes_and_returns(v, first, &[3], &[1]);
    let v = RowDVector::from_vec(vec![1.0, 2.0, 3.0]);
    let first = v.as_ptr();
    goes_and_returns(v, first, &[1, 3], &[1, 1]);
    let m = Matrix3xX::from_vec(vec![1.0; 6]);
    let first = m.as_ptr();
    goes_and_returns(m, first, &[3, 2], &[1, 3]);
    let m = MatrixXx3::from_vec(vec![1.0; 6]);
    let first = m.as_ptr();
    goes_and_returns(m, first, &[2, 3], &[1, 2]);
}

/// Asserts what a consumer reads, and the round trip through a C pointer.
fn is_boxed<M>(matrix: M, shape: &[i64], strides: &[i64], elements: &[i32])
where
    M: MatrixExt + Clone + PartialEq + Debug,
{
    let borrowed = matrix.as_tensor_ref();
    assert_eq!((borrowed.shape(), borrowed.strides()), (shape, strides));
    assert_eq!(borrowed.view::<i32>().unwrap().to_vec(), elements);
    let tensor = matrix.clone().into_tensor();
    assert_eq!((tensor.shape(), tensor.strides()), (shape, strides));
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), elements);
    let tensor = through_c(tensor);
    assert_eq!(M::try_from_tensor(tensor).unwrap(), matrix);
}

#[test]
fn static_matrices_move_to_the_heap() {
    is_boxed(matrix![1, 2, 3; 4, 5, 6], &[2, 3], &[1, 2], &[1, 2, 3, 4, 5, 6]);
    is_boxed(vector![1, 2, 3], &[3], &[1], &[1, 2, 3]);
    is_boxed(matrix![1, 2, 3], &[1, 3], &[1, 1], &[1, 2, 3]);
    is_boxed(matrix![7], &[1], &[1], &[7]);
    is_boxed(SMatrix::<i32, 0, 3>::zeros(), &[0, 3], &[1, 1], &[]);
}

#[test]
fn matrices_without_elements() {
    for (rows, columns) in [(0, 0), (0, 3), (3, 0)] {
        let tensor = DMatrix::<f32>::zeros(rows, columns).into_tensor();
        assert_eq!(tensor.shape(), [rows as i64, columns as i64]);
        assert!(tensor.data().is_null());
        assert_eq!(DMatrix::<f32>::try_from_tensor(tensor).unwrap().shape(), (rows, columns));
    }
    assert!(DVector::<f32>::zeros(0).into_tensor().is_empty());
}

#[test]
#[should_panic(expected = "the extents of a matrix fit an isize")]
fn extent_beyond_isize_panics() {
    DMatrix::<f32>::zeros(usize::MAX, 0).into_tensor();
}

#[test]
fn every_element_type_round_trips() {
    fn both_ways<T: Element + nalgebra::Scalar>(elements: [T; 4]) {
        let matrix = DMatrix::from_row_slice(2, 2, &elements);
        let tensor = matrix.clone().into_tensor();
        assert_eq!(tensor.dtype(), T::DATA_TYPE);
        assert_eq!(tensor.view::<T>().unwrap().to_vec(), elements);
        assert_eq!(DMatrix::<T>::try_from_tensor(tensor).unwrap(), matrix);
    }
    both_ways([1.0_f32, 2.0, 3.0, 4.0]);
    both_ways([1_i64, -2, 3, -4]);
    both_ways([1_u8, 2, 3, 4]);
    both_ways([1.0, 2.0, 3.0, 4.0].map(|x| Complex::new(x, -x)));
    both_ways([true, false, false, true]);
}

#[test]
fn invalid_bool_bytes_return_the_tensor() {
    let mut tensor = DMatrix::from_element(2, 2, true).into_tensor();
    // SAFETY: the tensor is exclusive, and a consumer of its dtype may write any byte.
    unsafe { tensor.data().cast::<u8>().write(2) };
    tensor = DMatrix::<bool>::try_from_tensor(tensor).unwrap_err();
    // SAFETY: the tensor is exclusive, and a consumer of its dtype may write any byte.
    unsafe { tensor.data().cast::<u8>().write(0) };
    let matrix = DMatrix::<bool>::try_from_tensor(tensor).unwrap();
    assert_eq!(matrix, dmatrix![false, true; true, true]);
}

#[test]
fn elements_outside_of_the_vector_that_keeps_them_are_not_taken_from_it() {
    static OTHERS: [i32; 2] = [7, 8];
    for len in [2, 3] {
        let parts = RawParts {
            access: Access::Immutable,
            ..RawParts::new((&raw const OTHERS).cast_mut().cast(), DataType::INT32)
        };
        // SAFETY: nothing writes the static, which any owner keeps.
        let tensor =
            unsafe { Tensor::from_raw_parts(vec![0_i32; len], parts, &[2], None::<&[i64]>) };
        let taken =
            catch_unwind(AssertUnwindSafe(|| DVector::<i32>::try_from_tensor(tensor.unwrap())));
        assert!(taken.is_err(), "{len}");
    }
}

#[test]
fn vectors_and_arrays_become_matrices() {
    let tensor = Tensor::from_parts_strided(vec![1, 2, 3, 4, 5, 6], [2, 3], [1, 2], 0).unwrap();
    let address = tensor.data().addr();
    let matrix = DMatrix::<i32>::try_from_tensor(tensor).unwrap();
    assert_eq!((matrix.as_ptr().addr(), &matrix), (address, &dmatrix![1, 3, 5; 2, 4, 6]));
    let tensor = Tensor::from(vec![1.0, 2.0]);
    assert_eq!(DVector::<f64>::try_from_tensor(tensor).unwrap(), dvector![1.0, 2.0]);
    let tensor = Tensor::from([[1, 2], [3, 4], [5, 6]]).transpose();
    assert_eq!(Matrix2x3::<i32>::try_from_tensor(tensor).unwrap(), matrix![1, 3, 5; 2, 4, 6]);
}

/// Asserts that the tensor is refused as an `M`, and returns it unchanged.
fn is_refused<M: MatrixExt + Debug>(tensor: Tensor) -> Tensor {
    let before = (tensor.shape().to_vec(), tensor.strides().to_vec(), tensor.data().addr());
    let dtype = tensor.dtype();
    let tensor = M::try_from_tensor(tensor).unwrap_err();
    let after = (tensor.shape().to_vec(), tensor.strides().to_vec(), tensor.data().addr());
    assert_eq!((after, tensor.dtype()), (before, dtype));
    tensor
}

#[test]
fn wrong_matrix_type_returns_tensor() {
    let tensor = dmatrix![1, 2, 3; 4, 5, 6].into_tensor();
    let tensor = is_refused::<DVector<i32>>(tensor);
    let tensor = is_refused::<DMatrix<u32>>(tensor);
    let tensor = is_refused::<MatrixXx3<i64>>(tensor);
    let tensor = is_refused::<Matrix3xX<i32>>(tensor);
    let tensor = is_refused::<Matrix2x3<i32>>(tensor); // the owner is a vector
    assert!(MatrixXx3::<i32>::try_from_tensor(tensor).is_ok());

    let tensor = matrix![1, 2, 3; 4, 5, 6].into_tensor();
    let tensor = is_refused::<DMatrix<i32>>(tensor); // the owner is an array
    let tensor = is_refused::<SMatrix<i32, 3, 2>>(tensor);
    let tensor = is_refused::<Vector3<i32>>(tensor);
    let tensor = is_refused::<RowVector3<i32>>(tensor);
    assert!(Matrix2x3::<i32>::try_from_tensor(tensor).is_ok());

    is_refused::<DMatrix<i32>>(Tensor::from_parts(vec![1, 2, 3, 4], [2, 2]).unwrap());
    is_refused::<SMatrix<i32, 2, 2>>(Tensor::from([[1, 2], [3, 4]]));
    is_refused::<DMatrix<u8>>(Tensor::from(&[1_u8, 2][..]).reshape([1, 2]).unwrap());
}

#[test]
fn slice_of_a_vector_returns_the_tensor() {
    let part = |rows, columns, offset| {
        let strides = [1, rows as isize];
        Tensor::from_parts_strided(vec![1, 2, 3, 4, 5, 6, 7], [rows, columns], strides, offset)
    };
    let tensor = is_refused::<DMatrix<i32>>(part(2, 2, 0).unwrap());
    let tensor = is_refused::<DMatrix<i32>>(tensor);
    assert_eq!(tensor.try_into_owner::<Vec<i32>>().unwrap().len(), 7);

    let tensor = is_refused::<DMatrix<i32>>(part(2, 3, 1).unwrap().into_read_only());
    assert!(tensor.is_read_only());
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [2, 4, 6, 3, 5, 7]);
    is_refused::<DMatrix<i32>>(part(0, 3, 2).unwrap());

    let rows = dvector![1, 2, 3].into_tensor().slice(0, 1..).unwrap();
    let tensor = is_refused::<DVector<i32>>(rows);
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [2, 3]);
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn export_allocates_once_and_taking_back_allocates_nothing() {
    let matrix = || DMatrix::<f64>::zeros(2, 3);
    let back = |tensor| drop(DMatrix::<f64>::try_from_tensor(tensor).unwrap());
    assert_eq!(allocations(|| drop(matrix())), 1);
    assert_eq!(allocations(|| drop(matrix().into_tensor())), 2);
    assert_eq!(allocations(|| back(matrix().into_tensor())), 2);
    assert_eq!(allocations(|| drop(matrix().into_tensor().try_into_owner::<Vec<f64>>())), 2);
    assert_eq!(allocations(|| drop(matrix().as_tensor_ref())), 1);
    let through_c = || {
        back(through_c(matrix().into_tensor()));
    };
    assert_eq!(allocations(through_c), 2);
}

#[test]
fn consumer_frees_the_matrix() {
    allocations(|| {
        consume(DVector::<f64>::zeros(3).into_tensor());
    });
}

#[test]
fn refusals_free_everything_once() {
    allocations(|| {
        let tensor = DMatrix::<f64>::zeros(2, 3).into_tensor();
        let tensor = DMatrix::<f32>::try_from_tensor(tensor).unwrap_err();
        let tensor = DVector::<f64>::try_from_tensor(tensor).unwrap_err();
        drop(Matrix2::<f64>::try_from_tensor(tensor).unwrap_err());
    });
    allocations(|| {
        let part = Tensor::from_parts_strided(vec![0.0; 9], [2, 2], [1, 2], 3).unwrap();
        drop(DMatrix::<f64>::try_from_tensor(part).unwrap_err());
    });
    allocations(|| {
        let tensor = Matrix2::<f64>::zeros().into_tensor();
        let tensor = DMatrix::<f64>::try_from_tensor(tensor).unwrap_err();
        assert!(Matrix2::<f64>::try_from_tensor(tensor).is_ok());
    });
}
