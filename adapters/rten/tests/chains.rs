//! Loops that build chains of owners drop on a small stack.

use dlbridge::Tensor;
use dlbridge_rten::{RtenExt, TensorExt};
use dlbridge_testing::repeat;

#[test]
fn rten_loop_of_shares_drops_on_a_small_stack() {
    repeat(Tensor::from(vec![1.0_f32, 2.0]), |tensor| {
        // SAFETY: nothing writes the elements in this test.
        let shared = unsafe { tensor.into_shared().share().assume_immutable() };
        shared.into_rten::<f32>().unwrap().into_tensor().unwrap()
    });
}

#[test]
fn rten_loop_of_reshapes_drops_on_a_small_stack() {
    repeat(Tensor::from(vec![1.0_f32, 2.0]), |tensor| {
        let shape = if tensor.ndim() == 1 { vec![1, 2] } else { vec![2] };
        tensor.reshape(shape).unwrap().into_rten_mut::<f32>().unwrap().into_tensor().unwrap()
    });
}

#[test]
fn rten_loop_of_transposes_drops_on_a_small_stack() {
    repeat(Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]), |tensor| {
        tensor.transpose().into_rten_mut::<f32>().unwrap().into_tensor().unwrap()
    });
}
