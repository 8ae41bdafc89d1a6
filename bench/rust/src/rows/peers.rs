//! The peers, each used as in its own documentation. A peer without an adapter for a work lacks its row.

use super::Row;

/// The rows of all peers.
pub(super) const ROWS: &[Row] = &[
    Row { name: "vec/dlpark", run: dlpark::vec },
    Row { name: "vec/dlpk", run: dlpk::vec },
    Row { name: "vec/dlpack-rs", run: dlpack_rs::vec },
    Row { name: "four/dlpark", run: dlpark::four },
    Row { name: "four/dlpack-rs", run: dlpack_rs::four },
    Row { name: "array/dlpark", run: dlpark::array },
    Row { name: "array/dlpk", run: dlpk::array },
];

/// With dlpark, as in its documentation: `docs/core-api.md` for buffers, its README for ndarray.
mod dlpark {
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
}

/// With dlpk. It accepts a buffer of several dimensions only as an ndarray array, so the row `four` is missing.
mod dlpk {
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
}

/// With dlpack-rs, as in its README. It lacks an adapter for ndarray.
mod dlpack_rs {
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
}
