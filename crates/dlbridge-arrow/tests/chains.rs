//! Loops that make chains of owners drop on a small stack.
//!
//! Miri and debug builds run fewer turns, because a turn through the library is slow there, and debug builds on a stack that is as
//! much smaller. A drop by recursion overflows it with either number: it has half a byte for each turn, and a call takes at least eight.

use dlbridge::Tensor;
use dlbridge_arrow::{ArrayExt, TensorExt};

const TURNS: usize = match (cfg!(miri), cfg!(debug_assertions)) {
    (true, _) => 40,
    (_, true) => 100_000,
    (_, false) => 1_000_000,
};

const STACK: usize = if cfg!(miri) { 512 << 10 } else { (512 << 10) * (TURNS / 1_000) / 1_000 };

/// Runs a loop and drops what it leaves, on a thread with a small stack.
fn repeat(first: Tensor, turn: impl Fn(Tensor) -> Tensor + Send + 'static) {
    let run = move || drop((0..TURNS).fold(first, |tensor, _| turn(tensor)));
    std::thread::Builder::new().stack_size(STACK).spawn(run).unwrap().join().unwrap();
}

#[test]
fn arrow_loop_of_batches_drops_on_a_small_stack() {
    repeat(Tensor::from([[1_i64, 2]]).transpose(), |tensor| {
        tensor.into_record_batch(["x"]).unwrap().into_tensor().unwrap()
    });
}
