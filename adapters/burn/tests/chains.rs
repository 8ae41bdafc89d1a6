//! Loops that build chains of owners drop on a small stack.

use dlbridge::Tensor;
use dlbridge_burn::{BurnExt, TensorExt};
use dlbridge_testing::repeat;

#[test]
fn burn_loop_of_exported_tensors_drops_on_a_small_stack() {
    repeat(Tensor::from(vec![1.0_f32, 2.0]), |tensor| {
        let source = tensor.into_shared();
        // SAFETY: just exported, and nothing writes the elements in this test.
        let shared = unsafe { Tensor::from_raw(source.to_raw()).unwrap().assume_immutable() };
        // The source lives on while burn imports the tensor, so that the owner of `shared` cannot be taken out.
        let flex = shared.into_flex().unwrap();
        drop(source);
        flex.into_tensor().unwrap()
    });
}

#[test]
fn burn_loop_of_transposes_drops_on_a_small_stack() {
    repeat(Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]), |tensor| {
        tensor.transpose().into_flex().unwrap().into_tensor().unwrap()
    });
}
