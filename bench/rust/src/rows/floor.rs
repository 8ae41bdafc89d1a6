//! The floor: hand-written code that exports only this one type. It allocates one block for everything, and checks only
//! what the type does not guarantee.

use std::hint::black_box;
use std::ptr;

use dlbridge::sys::{
    DLDataType, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor, kDLCPU, kDLFloat,
};
use ndarray::{Array3, ArrayView3, ShapeBuilder};

use super::source::{SHAPE_I64, buffer, three};

/// A managed tensor and everything that it points to, including its owner.
#[repr(C)]
struct Block<O, const N: usize> {
    managed: DLManagedTensorVersioned,
    shape: [i64; N],
    strides: [i64; N],
    owner: O,
}

impl<O, const N: usize> Block<O, N> {
    fn export(
        owner: O,
        data: *mut f32,
        shape: [i64; N],
        strides: [i64; N],
    ) -> *mut DLManagedTensorVersioned {
        let dl_tensor = DLTensor {
            data: data.cast(),
            device: DLDevice { device_type: kDLCPU, device_id: 0 },
            ndim: N as i32,
            dtype: DLDataType { code: kDLFloat, bits: 32, lanes: 1 },
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        let managed = DLManagedTensorVersioned {
            version: DLPackVersion { major: 1, minor: 3 },
            manager_ctx: ptr::null_mut(),
            deleter: Some(Self::delete),
            flags: 0,
            dl_tensor,
        };
        let block = Box::into_raw(Box::new(Self { managed, shape, strides, owner }));
        // SAFETY: the block is initialised and stays in place until the deleter runs.
        unsafe {
            (*block).managed.dl_tensor.shape = (&raw mut (*block).shape).cast();
            (*block).managed.dl_tensor.strides = (&raw mut (*block).strides).cast();
        }
        block.cast()
    }

    unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
        // SAFETY: `export` returned the block under this address, that of its first field, and the deleter runs once.
        drop(unsafe { Box::from_raw(managed.cast::<Self>()) });
    }
}

fn delete(managed: *mut DLManagedTensorVersioned) {
    let managed = black_box(managed);
    // SAFETY: the managed tensor was just exported, no other code has it, and its deleter runs once.
    unsafe {
        if let Some(deleter) = (*managed).deleter {
            deleter(managed);
        }
    }
}

fn compact<const N: usize>(shape: [i64; N]) -> [i64; N] {
    let mut strides = [1; N];
    for axis in (1..N).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

pub(super) fn vec() {
    let mut owner = buffer();
    let (data, shape) = (owner.as_mut_ptr(), [owner.len() as i64]);
    delete(Block::export(owner, data, shape, [1]));
}

pub(super) fn four() {
    let mut owner = buffer();
    let shape = SHAPE_I64;
    let data = owner.as_mut_ptr();
    delete(Block::export(owner, data, shape, compact(shape)));
}

pub(super) fn array() {
    let mut owner: Array3<f32> = three();
    let data = owner.as_mut_ptr();
    let mut shape = [0; 3];
    let mut strides = [0; 3];
    for axis in 0..3 {
        shape[axis] = owner.shape()[axis] as i64;
        strides[axis] = owner.strides()[axis] as i64;
    }
    let managed = black_box(Block::export(owner, data, shape, strides));
    // SAFETY: the managed tensor is alive, and was made from an array with these extents and strides.
    let view = unsafe {
        let tensor = &(*managed).dl_tensor;
        let shape = tensor.shape.cast::<[i64; 3]>().read().map(|extent| extent as usize);
        let strides = tensor.strides.cast::<[i64; 3]>().read().map(|stride| stride as usize);
        ArrayView3::from_shape_ptr(shape.strides(strides), tensor.data.cast::<f32>())
    };
    black_box(view[[1, 2, 3]]);
    delete(managed);
}
