//! Loops that make chains of owners, which drop on a small stack.
//!
//! A drop by recursion overflows the stack: it has half a byte for each turn, and a call takes at least eight. Under Miri
//! a turn is slow, so Miri runs fewer turns and only checks the memory.

use dlbridge::Tensor;

/// The number of turns of a loop.
pub const TURNS: usize = if cfg!(miri) { 40 } else { 1_000_000 };

/// The size of the stack in bytes.
pub const STACK: usize = 512 << 10;

/// Runs a loop, and drops the tensor that it leaves, on a thread with a small stack.
pub fn repeat(first: Tensor, turn: impl Fn(Tensor) -> Tensor + Send + 'static) {
    let run = move || drop((0..TURNS).fold(first, |tensor, _| turn(tensor)));
    std::thread::Builder::new().stack_size(STACK).spawn(run).unwrap().join().unwrap();
}
