//! With dlbridge.

use std::hint::black_box;

use dlbridge::Tensor;
use ndarray::ArrayView3;

use super::source::{SHAPE, buffer, three};

/// Does what a consumer does in the end.
fn delete(tensor: Tensor) {
    let managed = black_box(tensor.into_raw());
    // SAFETY: the managed tensor is whole and nobody else's; its deleter runs once.
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
