//! Operators on CUDA that launch no kernel: they record what they get, for tests without a GPU.

use std::sync::Mutex;

use dlbridge_ops::{CudaArray, CudaInPlace, CudaOut, OnCuda, op};

/// Device, stream, and addresses of the last call.
static FOUND: Mutex<[i64; 4]> = Mutex::new([0; 4]);

/// Records the call.
#[op(default(by = 1.0))]
pub(crate) fn cuda_scale(
    x: CudaArray<'_, f32>,
    cuda: OnCuda<'_>,
    by: f64,
    mut out: CudaOut<'_, f32>,
) {
    let _ = by;
    let (device, stream) = (cuda.device().into(), cuda.stream().addr() as i64);
    let found = [device, stream, x.as_ptr().addr() as i64, out.as_mut_ptr().addr() as i64];
    *FOUND.lock().unwrap() = found;
}

/// Records the call.
#[op]
pub(crate) fn cuda_relu_(cuda: OnCuda<'_>, mut x: CudaInPlace<'_, f32>) {
    let (device, stream) = (cuda.device().into(), cuda.stream().addr() as i64);
    *FOUND.lock().unwrap() = [device, stream, x.as_mut_ptr().addr() as i64, 0];
}

/// The record of the last call on CUDA.
#[op(shape(out = [4]))]
pub(crate) fn cuda_found(clear: bool, out: &mut [i64]) {
    let mut found = FOUND.lock().unwrap();
    out.copy_from_slice(&*found);
    if clear {
        *found = [0; 4];
    }
}
