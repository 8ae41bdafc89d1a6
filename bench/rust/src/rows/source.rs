//! The value that every row begins with.

use std::hint::black_box;

use ndarray::Array3;

/// The shape of the buffer of four dimensions.
pub(super) static SHAPE: [usize; 4] = [2, 3, 2, 2];
pub(super) static SHAPE_I64: [i64; 4] = [2, 3, 2, 2];
/// Its strides, for libraries that need them from the author.
#[cfg(feature = "peers")]
pub(super) static STRIDES: [i64; 4] = [12, 4, 2, 1];

/// The number of elements of every source.
const LENGTH: usize = 24;

/// Returns a buffer that the compiler cannot reason about.
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
