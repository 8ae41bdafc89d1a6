//! With dlpack-rs, as in its README. It lacks an adapter for ndarray.

use std::hint::black_box;

use dlpack_rs::safe::{TensorInfo, cpu_device, dtype_f32, pack_versioned};

use crate::rows::source::{SHAPE_I64, buffer};

fn export(mut values: Vec<f32>, shape: Vec<i64>) {
    let data = values.as_mut_ptr().cast();
    let info = TensorInfo::contiguous(data, cpu_device(), dtype_f32(), shape);
    let managed = black_box(pack_versioned(values, info, 0));
    // SAFETY: the managed tensor was just exported, no other code has it, and its deleter runs once.
    unsafe {
        if let Some(deleter) = (*managed).deleter {
            deleter(managed);
        }
    }
}

pub(super) fn vec() {
    let values = buffer();
    let shape = vec![values.len() as i64];
    export(values, shape);
}

pub(super) fn four() {
    export(buffer(), SHAPE_I64.to_vec());
}
