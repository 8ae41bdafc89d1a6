//! Two `CudaContext` objects of one device, each with its own count of streams, on a stand-in for the driver: no GPU.

mod common;

use std::sync::Arc;

use common::{Cuda, address, bytes, cuda};
use cudarc::driver::{CudaSlice, CudaStream, UnifiedSlice};
use dlbridge::Tensor;
use dlbridge_cuda::{BorrowExt, BorrowMutExt, SliceExt, TensorExt};

/// Managed memory of one object, filled with ones, as a tensor synchronised with the other object's default stream, on
/// which a copy of fives to it is pending.
fn written_by_another(cuda: &Cuda) -> (Tensor, CudaSlice<f32>, [Arc<CudaStream>; 2]) {
    let (a, b) = (cuda.context(0), cuda.context(0));
    let kept = a.new_stream().unwrap();
    let (order, second) = (b.default_stream(), b.new_stream().unwrap());
    let source = cuda.slice(&order, &[5.0_f32; 4]);
    // SAFETY: the test writes all elements before it reads them.
    let mut unified = unsafe { a.alloc_unified::<f32>(4, true) }.unwrap();
    unified.as_mut_slice().unwrap().fill(1.0);
    let tensor = unified.into_tensor_on([4], &order).unwrap();
    let mut memory = tensor.into_cuda_on::<f32>(&order, &order).unwrap();
    order.memcpy_dtod(&source, &mut memory.view_mut().unwrap()).unwrap();
    let tensor = memory.into_tensor();
    drop(second);
    assert!(!b.is_in_multi_stream_mode(), "cudarc does not record its streams");
    (tensor, source, [kept, order])
}

#[test]
fn host_reads_managed_memory_after_other_objects_work() {
    let Some(cuda) = cuda() else { return };
    let (tensor, _source, [_kept, order]) = written_by_another(&cuda);
    let unified: UnifiedSlice<f32> = tensor.try_into_slice().unwrap();
    let seen = unified.as_slice().unwrap().to_vec();
    order.synchronize().unwrap();
    assert_eq!((&seen[..], unified.as_slice().unwrap()), (&[5.0; 4][..], &[5.0; 4][..]));
}

#[test]
fn managed_memory_is_freed_after_other_objects_work() {
    let Some(cuda) = cuda() else { return };
    let (tensor, _source, [_kept, order]) = written_by_another(&cuda);
    drop(tensor);
    order.synchronize().unwrap();
    assert_eq!(cuda.faults(), 0);
}

#[test]
fn returned_slice_is_read_after_other_objects_work() {
    let Some(cuda) = cuda() else { return };
    let (a, b) = (cuda.context(0), cuda.context(0));
    let (mine, other) = (a.new_stream().unwrap(), a.new_stream().unwrap());
    let order = b.default_stream();
    let tensor = cuda.slice(&mine, &[1.0_f32, 2.0]).into_tensor_on([2], &order).unwrap();
    cuda.kernel(&order, tensor.data().addr() as u64, bytes(&[9.0_f32]));
    let slice: CudaSlice<f32> = tensor.try_into_slice().unwrap();
    assert_eq!(common::fetched(&other, &slice.as_view()), [9.0, 2.0]);
}

#[test]
fn borrowed_slice_is_used_after_other_objects_work() {
    let Some(cuda) = cuda() else { return };
    let (a, b) = (cuda.context(0), cuda.context(0));
    let (mine, other) = (a.new_stream().unwrap(), a.new_stream().unwrap());
    let order = b.default_stream();
    let mut slice = cuda.slice(&mine, &[1.0_f32, 2.0]);
    let first = address(&slice);
    let result = slice
        .with_tensor_ref_mut_on([2], &order, |_| cuda.kernel(&order, first, bytes(&[9.0_f32])));
    result.unwrap();
    assert_eq!(common::fetched(&other, &slice.as_view()), [9.0, 2.0]);
    let target = cuda.slice(&mine, &[0.0_f32; 2]);
    mine.synchronize().unwrap();
    let result = slice.with_tensor_ref_on([2], &order, |_| {
        // SAFETY: two floats each, and both allocations live.
        unsafe {
            let order = order.cu_stream();
            cudarc::driver::result::memcpy_dtod_async(address(&target), first, 8, order)
        }
    });
    result.unwrap().unwrap();
    other.memset_zeros(&mut slice).unwrap();
    other.synchronize().unwrap();
    order.synchronize().unwrap();
    assert_eq!(cuda.now(address(&target), 8), bytes(&[9.0_f32, 2.0]));
}

#[test]
fn stream_of_other_object_lives_as_long_as_the_tensor() {
    let Some(cuda) = cuda() else { return };
    let (a, b) = (cuda.context(0), cuda.context(0));
    let mine = a.new_stream().unwrap();
    let order = b.new_stream().unwrap();
    let tensor = cuda.slice(&mine, &[1.0_f32; 2]).into_tensor_on([2], &order).unwrap();
    let before = cuda.stream_waits();
    cuda.kernel(&order, tensor.data().addr() as u64, &[1; 8]);
    drop((order, b));
    drop(tensor);
    assert!(cuda.stream_waits() > before);
    mine.synchronize().unwrap();
    assert_eq!(cuda.faults(), 0);
    a.check_err().unwrap();
}

#[test]
fn error_is_stored_in_the_memorys_object() {
    let Some(cuda) = cuda() else { return };
    let (a, b) = (cuda.context(0), cuda.context(0));
    let (mine, order) = (a.new_stream().unwrap(), b.default_stream());
    let mut slice = cuda.slice(&mine, &[1.0_f32; 2]);
    let first = address(&slice);
    let refusal =
        cuda.without_events(|| slice.with_tensor_ref_mut_on([2], &order, |_| ())).unwrap_err();
    assert_eq!(refusal.to_string(), "the CUDA driver: CUDA_ERROR_UNKNOWN (code 999)");
    a.check_err().unwrap();
    b.check_err().unwrap();
    let result = slice.with_tensor_ref_mut_on([2], &order, |_| {
        a.record_err::<()>(Err(cudarc::driver::DriverError(
            cudarc::driver::sys::CUresult::CUDA_ERROR_UNKNOWN,
        )));
        cuda.kernel(&order, first, bytes(&[9.0_f32]));
    });
    result.unwrap();
    assert!(a.check_err().is_err(), "the context still stores it");
    b.check_err().unwrap();
}

#[test]
fn call_waits_for_dropped_stream() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let default = context.default_stream();
    let mut slice = cuda.slice(&default, &[1.0_f32, 2.0]);
    let other = context.new_stream().unwrap();
    other.memset_zeros(&mut slice).unwrap();
    drop(other);
    assert!(!context.is_in_multi_stream_mode(), "cudarc ignores events now");
    let first = address(&slice);
    let result = slice.with_tensor_ref([2], |_| {
        default.synchronize().unwrap();
        cuda.now(first, 8)
    });
    assert_eq!(result.unwrap(), [0; 8]);
}
