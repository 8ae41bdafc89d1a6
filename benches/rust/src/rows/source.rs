//! What every row begins with.

use std::hint::black_box;

use ndarray::Array3;

/// The shape of the buffer of four dimensions, and how many elements every source has.
pub(super) const SHAPE: [usize; 4] = [2, 3, 2, 2];
const LENGTH: usize = 24;

/// A buffer that the compiler knows nothing of.
#[inline(never)]
pub(super) fn buffer() -> Vec<f32> {
    black_box(vec![1.0; LENGTH])
}

#[inline(never)]
pub(super) fn three() -> Array3<f32> {
    black_box(Array3::zeros((2, 3, 4)))
}

pub(super) fn vec() {
    black_box(buffer());
}

pub(super) fn array() {
    black_box(three());
}
