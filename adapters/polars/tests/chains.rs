//! Loops that make chains of owners drop on a small stack.
//!
//! Miri runs fewer turns, because a turn is slow there, and only checks the memory. Otherwise a drop by recursion overflows the stack: it
//! has half a byte for each turn, and a call takes at least eight.

use dlbridge::Tensor;
use dlbridge_polars::{DataFrameExt, TensorExt};

const TURNS: usize = if cfg!(miri) { 40 } else { 1_000_000 };

const STACK: usize = 512 << 10;

/// Runs a loop and drops what it leaves, on a thread with a small stack.
fn repeat(first: Tensor, turn: impl Fn(Tensor) -> Tensor + Send + 'static) {
    let run = move || drop((0..TURNS).fold(first, |tensor, _| turn(tensor)));
    std::thread::Builder::new().stack_size(STACK).spawn(run).unwrap().join().unwrap();
}

#[test]
fn polars_loop_of_frames_drops_on_a_small_stack() {
    repeat(Tensor::from([[1_i64, 2]]).transpose(), |tensor| {
        tensor.into_data_frame(["x"]).unwrap().into_tensor().unwrap()
    });
}
