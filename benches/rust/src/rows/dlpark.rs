//! With dlpark, as its guides have it: `docs/core-api.md` for buffers, its README for ndarray.

use std::hint::black_box;

use dlpark::ffi::{DLDataType, DLDevice, DLManagedTensorVersioned};
use dlpark::metadata::Fixed;
use dlpark::{TryFromDlpack, allocation::dynamic, versioned};
use ndarray::ArrayViewD;

use super::source::{SHAPE, buffer, three};

fn export<const N: usize>(mut values: Vec<f32>, shape: [usize; N], strides: [usize; N]) {
    let data = values.as_mut_ptr().cast();
    let mut initialized =
        Fixed::new(shape, strides).initialize(Box::new(values)).expect("the extents fit");
    initialized.set_data(data).set_dtype(DLDataType::F32).set_device(DLDevice::CPU);
    // SAFETY: the buffer is as the fields say and lives as long as the tensor.
    let tensor: versioned::Dlpack = unsafe { initialized.finish() };
    drop(black_box(tensor));
}

pub(super) fn vec() {
    let values = buffer();
    let length = values.len();
    export(values, [length], [1]);
}

pub(super) fn four() {
    let shape = black_box(SHAPE);
    let strides = dlpark::tensor::compact_strides_array(shape.map(|extent| extent as i64))
        .expect("the extents fit");
    export(buffer(), shape, strides.map(|stride| stride as usize));
}

pub(super) fn array() {
    let initialized: dynamic::Initialized<DLManagedTensorVersioned> =
        Box::new(three()).try_into().expect("the extents fit");
    // SAFETY: what dlpark made of the array is as it says.
    let tensor: versioned::Dlpack = unsafe { initialized.finish() };
    // SAFETY: the memory is the array's, which nobody writes.
    let view = unsafe { ArrayViewD::<f32>::try_from_dlpack(&tensor, ()) }.expect("float32");
    black_box(view[[1, 2, 3]]);
}
