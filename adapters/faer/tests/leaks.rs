//! What is allocated, and that all of it is freed once on every path. An allocator counts what
//! this thread does.

use dlbridge::Tensor;
use dlbridge_faer::MatrixExt;
use dlbridge_testing::{Counting, allocations, consume, through_c};
use faer::{Col, Mat};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_tensor_takes_one_allocation_and_the_way_back_none() {
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
fn a_consumer_frees_the_matrix() {
    allocations(|| {
        consume(Col::<f64>::zeros(3).into_tensor());
    });
}

#[test]
fn refusals_free_nothing_twice() {
    allocations(|| {
        let tensor = Mat::<f64>::zeros(2, 3).into_tensor();
        let tensor = tensor.try_into_owner::<Mat<f32>>().unwrap_err();
        drop(tensor.try_into_owner::<Col<f64>>().unwrap_err());
    });
}
