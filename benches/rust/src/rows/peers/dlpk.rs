//! With dlpk. It accepts a buffer of several dimensions only as an ndarray array, so the row `four` is missing.

use std::hint::black_box;

use dlpk::DLPackTensor;
use ndarray::ArrayView3;

use crate::rows::source::{buffer, three};

pub(super) fn vec() {
    drop(black_box(DLPackTensor::try_from(buffer()).expect("float32")));
}

pub(super) fn array() {
    let tensor = DLPackTensor::try_from(three()).expect("float32");
    let view = ArrayView3::<f32>::try_from(tensor.as_ref()).expect("three dimensions");
    black_box(view[[1, 2, 3]]);
}
