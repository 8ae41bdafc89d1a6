//! With dlpark, as in its documentation: `docs/core-api.md` for buffers, its README for ndarray.

use std::hint::black_box;

use dlpark::ffi::{DLDataType, DLDevice, DLManagedTensorVersioned};
use dlpark::metadata::Fixed;
use dlpark::{TryFromDlpack, allocation::dynamic, versioned};
use ndarray::ArrayViewD;

use crate::rows::source::{SHAPE_I64, STRIDES, buffer, three};

fn export<const N: usize>(mut values: Vec<f32>, shape: &[i64; N], strides: &[i64; N]) {
    let data = values.as_mut_ptr().cast();
    let mut initialized =
        Fixed::new(shape, strides).initialize(Box::new(values)).expect("the extents fit");
    initialized.set_data(data).set_dtype(DLDataType::F32).set_device(DLDevice::CPU);
    // SAFETY: the fields describe the buffer, which lives as long as the tensor.
    let tensor: versioned::Dlpack = unsafe { initialized.finish() };
    drop(black_box(tensor));
}

pub(super) fn vec() {
    let values = buffer();
    let shape = [values.len() as i64];
    export(values, &shape, &[1]);
}

/// The author knows the strides; the other libraries compute them.
pub(super) fn four() {
    export(buffer(), &SHAPE_I64, &STRIDES);
}

pub(super) fn array() {
    let initialized: dynamic::Initialized<DLManagedTensorVersioned> =
        Box::new(three()).try_into().expect("the extents fit");
    // SAFETY: dlpark itself described the array.
    let tensor: versioned::Dlpack = unsafe { initialized.finish() };
    // SAFETY: the memory is the array's, which no code writes.
    let view = unsafe { ArrayViewD::<f32>::try_from_dlpack(&tensor, ()) }.expect("float32");
    black_box(view[[1, 2, 3]]);
}
