//! Loops that build chains of owners drop on a small stack.

use dlbridge::Tensor;
use dlbridge_polars::{DataFrameExt, TensorExt};
use dlbridge_testing::repeat;

#[test]
fn polars_loop_of_frames_drops_on_a_small_stack() {
    repeat(Tensor::from([[1_i64, 2]]).transpose(), |tensor| {
        tensor.into_data_frame(["x"]).unwrap().into_tensor().unwrap()
    });
}
