//! Loops that make chains of owners drop on a small stack.
//!
//! Miri runs fewer turns, because a turn is slow there, and only checks the memory. Otherwise a drop by recursion overflows the stack: it
//! has half a byte for each turn, and a call takes at least eight.

use std::sync::Arc;

use dlbridge::Tensor;
use dlbridge_rten::{RtenExt, TensorExt};

const TURNS: usize = if cfg!(miri) { 40 } else { 1_000_000 };

const STACK: usize = 512 << 10;

/// Runs a loop and drops what it leaves, on a thread with a small stack.
fn repeat(first: Tensor, turn: impl Fn(Tensor) -> Tensor + Send + 'static) {
    let run = move || drop((0..TURNS).fold(first, |tensor, _| turn(tensor)));
    std::thread::Builder::new().stack_size(STACK).spawn(run).unwrap().join().unwrap();
}

#[test]
fn rten_loop_of_shares_drops_on_a_small_stack() {
    repeat(Tensor::from(vec![1.0_f32, 2.0]), |tensor| {
        // SAFETY: nothing writes the elements in this test.
        let shared = unsafe { Arc::new(tensor).share().assume_immutable() };
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
