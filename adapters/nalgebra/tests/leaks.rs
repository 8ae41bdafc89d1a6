//! Counts allocations, and checks that every path frees all of them once. An allocator counts what the test's thread
//! does.

use dlbridge::Tensor;
use dlbridge_nalgebra::MatrixExt;
use dlbridge_testing::{Counting, allocations, consume, through_c};
use nalgebra::{DMatrix, DVector, Matrix2};

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
