//! Loops that build chains of owners drop on a small stack.

use dlbridge::Tensor;
use dlbridge_arrow::{ArrayExt, TensorExt};
use dlbridge_testing::repeat;

#[test]
fn arrow_loop_of_batches_drops_on_a_small_stack() {
    repeat(Tensor::from([[1_i64, 2]]).transpose(), |tensor| {
        tensor.into_record_batch(["x"]).unwrap().into_tensor().unwrap()
    });
}
