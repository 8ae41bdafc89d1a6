//! Loops that build chains of owners drop on a small stack.

use dlbridge::Tensor;
use dlbridge_kornia::{KorniaExt, TensorExt};
use dlbridge_testing::{TURNS, repeat};

#[test]
fn kornia_loop_of_reshapes_drops_on_a_small_stack() {
    repeat(Tensor::from(vec![1.0_f32, 2.0]), |tensor| match tensor.ndim() {
        1 => {
            tensor.into_kornia::<f32, 1>().unwrap().into_tensor().unwrap().reshape([1, 2]).unwrap()
        }
        _ => tensor.into_kornia::<f32, 2>().unwrap().into_tensor().unwrap().reshape([2]).unwrap(),
    });
}

#[test]
fn kornia_loop_of_shares_drops_on_a_small_stack() {
    repeat(Tensor::from(vec![1.0_f32, 2.0]), |tensor| {
        // SAFETY: nothing writes the elements in this test.
        let shared = unsafe { tensor.into_shared().share().assume_immutable() };
        shared.into_kornia::<f32, 1>().unwrap().into_read_only_tensor().unwrap()
    });
}

#[test]
fn kornia_loop_of_slices_drops_on_a_small_stack() {
    repeat(Tensor::from(vec![1.0_f32; TURNS + 1]), |tensor| {
        tensor.slice(0, 1..).unwrap().into_kornia::<f32, 1>().unwrap().into_tensor().unwrap()
    });
}
