//! With dlbridge.

use std::hint::black_box;

use dlbridge::Tensor;
use ndarray::ArrayView3;

use super::source::{SHAPE, buffer, three};

/// Calls the deleter, as a consumer does when it is done.
fn delete(tensor: Tensor) {
    let managed = black_box(tensor.into_raw());
    // SAFETY: the managed tensor was just exported, no other code has it, and its deleter runs once.
    unsafe {
        if let Some(deleter) = (*managed).deleter {
            deleter(managed);
        }
    }
}

pub(super) fn vec() {
    delete(Tensor::from(buffer()));
}

pub(super) fn four() {
    delete(Tensor::from_parts(buffer(), SHAPE).expect("the buffer has the elements"));
}

pub(super) fn array() {
    let tensor = Tensor::from(three());
    let view: ArrayView3<'_, f32> =
        tensor.view::<f32>().expect("float32").try_into().expect("three dimensions");
    black_box(view[[1, 2, 3]]);
}
