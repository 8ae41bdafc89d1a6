//! Tensors, owners and counters that the tests of several adapters share.

use std::env;
use std::fmt::Display;

use dlbridge::sys::DLManagedTensorVersioned;
use dlbridge::{Tensor, TensorView};

mod allocations;
mod tensors;

pub use allocations::{Counting, allocations, large_allocations};
pub use tensors::{
    Counted, Drops, Layout, Narrow, SLICES, Slice, assert_bytes, assert_slices, for_each_dtype,
    for_each_shape, foreign, foreign_strided, foreign_vec, misaligned, misaligned_floats, numbers,
    on_cuda, out_of_reach, sliced,
};

/// Exports a tensor and imports it again.
pub fn through_c(tensor: Tensor) -> Tensor {
    // SAFETY: `into_raw` just exported it, and nothing else imports it.
    unsafe { Tensor::from_raw(tensor.into_raw()) }.expect("an exported tensor is imported")
}

/// Exports a tensor with the legacy struct and imports it again.
pub fn through_legacy_c(tensor: Tensor) -> Tensor {
    let managed = tensor.into_raw_legacy().expect("the legacy struct can describe it");
    // SAFETY: `into_raw_legacy` just exported it, and nothing else imports it.
    unsafe { Tensor::from_raw_legacy(managed) }.expect("an exported tensor is imported")
}

/// Exports a tensor to a consumer that only calls the deleter.
pub fn consume(tensor: Tensor) {
    let managed = tensor.into_raw();
    // SAFETY: `into_raw` just exported it, and its deleter is called once.
    unsafe { (*managed).deleter.expect("an exported tensor has a deleter")(managed) };
}

/// A second handle on the memory of a tensor, which wrote that memory.
#[derive(Debug)]
pub struct Writer(*mut DLManagedTensorVersioned);

impl Drop for Writer {
    fn drop(&mut self) {
        // SAFETY: exported by `written_by_another_handle`, and not used again.
        unsafe { (*self.0).deleter.unwrap()(self.0) };
    }
}

/// Returns a tensor that safe code marked as read-only, and the handle that wrote its memory nevertheless.
pub fn written_by_another_handle() -> (Tensor, Writer) {
    let tensor = Tensor::from(vec![1_i32, 2]).into_shared();
    let writer = Writer(tensor.to_raw());
    let read_only = tensor.share().into_read_only();
    // SAFETY: the integer is alive, and no view of it exists.
    unsafe { (*writer.0).dl_tensor.data.cast::<i32>().write(7) };
    assert_eq!(read_only.view::<i32>().unwrap().to_vec(), [7, 2]);
    (read_only, writer)
}

/// The number of turns of [`repeat`].
pub const TURNS: usize = if cfg!(miri) { 40 } else { 1_000_000 };

/// The size of its stack in bytes.
pub const STACK: usize = 512 << 10;

/// Runs a loop that makes a chain of owners, and drops the tensor that it leaves, on a thread with a small stack.
///
/// A drop by recursion overflows the stack: it has half a byte for each turn, and a call takes at least eight. Under Miri
/// a turn is slow, so Miri runs fewer turns and only checks the memory.
pub fn repeat(first: Tensor, turn: impl Fn(Tensor) -> Tensor + Send + 'static) {
    let run = move || drop((0..TURNS).fold(first, |tensor, _| turn(tensor)));
    std::thread::Builder::new().stack_size(STACK).spawn(run).unwrap().join().unwrap();
}

/// Returns a matrix over the numbers 0 to 23, with strides from an offset on, all in elements.
pub fn counting_matrix(shape: [usize; 2], strides: [isize; 2], offset: usize) -> Tensor {
    let elements: Vec<f64> = (0..24).map(f64::from).collect();
    Tensor::from_parts_strided(elements, shape, strides, offset).expect("the numbers suffice")
}

/// Returns an element of the product of two matrices, summed term by term.
pub fn product_element(
    a: &TensorView<'_, f64>,
    b: &TensorView<'_, f64>,
    [i, j]: [usize; 2],
) -> f64 {
    (0..a.shape()[1] as usize).map(|k| a[[i, k]] * b[[k, j]]).sum()
}

/// Returns what a test needs, or `None` after printing the reason.
///
/// `cargo xtask ci` and `nightly` set `DLBRIDGE_REQUIRE`. Then the test fails instead.
#[track_caller]
pub fn required<T>(name: &str, found: Result<T, impl Display>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(reason) => {
            assert!(env::var_os("DLBRIDGE_REQUIRE").is_none(), "{name} is required: {reason}");
            println!("skipped: no {name}: {reason}");
            None
        }
    }
}
