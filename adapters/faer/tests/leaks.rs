//! Counts allocations, and checks that every path frees all of them once. An allocator counts what the test's thread
//! does.

use dlbridge::Tensor;
use dlbridge_faer::MatrixExt;
use dlbridge_testing::{Counting, allocations, consume, through_c};
use faer::{Col, Mat};

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
