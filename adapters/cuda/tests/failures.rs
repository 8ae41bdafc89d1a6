//! A driver that has no events, and one with which not even the host can wait, which is a stand-in: no GPU.

mod common;

use std::sync::Arc;

use common::{Cuda, address, bytes, cuda};
use cudarc::driver::{CudaSlice, CudaStream, UnifiedSlice};
use dlbridge::{Access, DataType, Device, DeviceType, RawParts, Tensor};
use dlbridge_cuda::{CudaTensor, LendExt, LendMutExt, SliceExt, TensorExt};
use dlbridge_testing::{Counted, Drops};

/// Memory of another's in use on a stream, where a kernel is still to write a seven.
fn in_use(
    cuda: &Cuda,
    slice: &CudaSlice<f32>,
    stream: &Arc<CudaStream>,
) -> (CudaTensor<f32>, Drops) {
    let deleted = Drops::default();
    let data = std::ptr::without_provenance_mut(address(slice) as usize);
    let parts = RawParts {
        device: Device::new(DeviceType::CUDA, 0),
        access: Access::Exclusive,
        ..RawParts::new(data, DataType::FLOAT32)
    };
    let owner = Counted::new((), &deleted);
    // SAFETY: two floats, which the tests keep longer.
    let tensor = unsafe { Tensor::from_raw_parts(owner, parts, &[2_i64], None::<&[i64]>) };
    let memory = tensor.unwrap().into_cuda::<f32>(stream).unwrap();
    cuda.kernel(stream, address(slice), bytes(&[7.0_f32]));
    (memory, deleted)
}

#[test]
fn the_host_waits_before_the_producers_deleter_runs() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let mine = context.new_stream().unwrap();
    let slice = cuda.slice(&context.default_stream(), &[1.0_f32, 2.0]);
    let (memory, deleted) = in_use(&cuda, &slice, &mine);
    cuda.without_events(|| drop(memory));
    assert_eq!(deleted.count(), 1);
    assert_eq!(cuda.now(address(&slice), 8), bytes(&[7.0_f32, 2.0]));
    let _told = context.check_err();
}

#[test]
fn the_host_waits_before_a_slice_comes_back() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, default) = (context.new_stream().unwrap(), context.default_stream());
    let tensor = cuda.slice(&mine, &[1.0_f32, 2.0]).into_tensor([2]).unwrap();
    let first = tensor.data().addr() as u64;
    cuda.kernel(&default, first, bytes(&[7.0_f32]));
    let slice = cuda.without_events(|| tensor.try_into_slice::<CudaSlice<f32>>()).unwrap();
    assert_eq!(cuda.now(first, 8), bytes(&[7.0_f32, 2.0]));
    drop(slice);
    // SAFETY: written by the kernel.
    let unified = unsafe { context.alloc_unified::<f32>(2, true) }.unwrap();
    let tensor = unified.into_tensor([2]).unwrap();
    cuda.kernel(&default, tensor.data().addr() as u64, bytes(&[7.0_f32, 8.0]));
    let unified = cuda.without_events(|| tensor.try_into_slice::<UnifiedSlice<f32>>()).unwrap();
    assert_eq!(unified.as_slice().unwrap(), [7.0, 8.0]);
}

#[test]
fn the_host_waits_at_the_end_of_a_call() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, default) = (context.new_stream().unwrap(), context.default_stream());
    let mut slice = cuda.slice(&mine, &[1.0_f32, 2.0]);
    let first = address(&slice);
    let end = |number: f32| {
        cuda.kernel(&default, first, bytes(&[number]));
        cuda.fail_events(true);
    };
    slice.lend_mut([2], |_| end(7.0)).unwrap();
    cuda.fail_events(false);
    assert_eq!(cuda.now(first, 8), bytes(&[7.0_f32, 2.0]));
    slice.lend([2], |_| end(8.0)).unwrap();
    cuda.fail_events(false);
    assert_eq!(cuda.now(first, 8), bytes(&[8.0_f32, 2.0]));
    context.check_err().unwrap();
}

#[test]
fn the_host_waits_before_memory_is_freed() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, default) = (context.new_stream().unwrap(), context.default_stream());
    let tensor = cuda.slice(&mine, &[1.0_f32, 2.0]).into_tensor([2]).unwrap();
    cuda.kernel(&default, tensor.data().addr() as u64, &[1; 8]);
    // SAFETY: nobody reads it.
    let unified = unsafe { context.alloc_unified::<f32>(2, true) }.unwrap();
    let unified = unified.into_tensor([2]).unwrap();
    cuda.kernel(&default, unified.data().addr() as u64, &[1; 8]);
    cuda.without_events(|| drop((tensor, unified)));
    assert_eq!((cuda.regions(), cuda.faults()), (0, 0));
    let _told = context.check_err();
}

#[test]
fn what_nobody_can_wait_for_is_kept_from_its_producer() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let mine = context.new_stream().unwrap();
    let slice = cuda.slice(&context.default_stream(), &[1.0_f32, 2.0]);
    let (memory, deleted) = in_use(&cuda, &slice, &mine);
    cuda.without_waits(|| drop(memory));
    assert!(context.check_err().is_err());
    assert_eq!(deleted.count(), 0);
    let (memory, deleted) = in_use(&cuda, &slice, &mine);
    let tensor = cuda.without_waits(|| memory.into_tensor());
    assert!(context.check_err().is_err());
    assert_eq!((tensor.access(), tensor.shape()), (Access::ReadOnly, &[2][..]));
    drop(tensor);
    assert_eq!(deleted.count(), 0);
    // The slice is the test's own.
    mine.synchronize().unwrap();
}

#[test]
fn what_nobody_can_wait_for_is_not_freed() {
    let Some(mut cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, default) = (context.new_stream().unwrap(), context.default_stream());
    let tensor = cuda.slice(&mine, &[1.0_f32, 2.0]).into_tensor([2]).unwrap();
    let first = tensor.data().addr() as u64;
    cuda.kernel(&default, first, bytes(&[7.0_f32]));
    cuda.without_waits(|| drop(tensor));
    assert!(context.check_err().is_err());
    // SAFETY: nobody reads it.
    let unified = unsafe { context.alloc_unified::<f32>(2, true) }.unwrap();
    let unified = unified.into_tensor([2]).unwrap();
    // SAFETY: nobody reads it.
    let pinned = unsafe { context.alloc_pinned::<f32>(2) }.unwrap().into_tensor([2]).unwrap();
    cuda.without_waits(|| drop((unified, pinned)));
    assert!(context.check_err().is_err());
    assert_eq!(cuda.regions(), 3);
    assert_eq!(cuda.now(first, 8), bytes(&[7.0_f32, 2.0]));
    cuda.leaked(3, 4);
}

#[test]
fn what_nobody_can_wait_for_stays_a_tensor() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, default) = (context.new_stream().unwrap(), context.default_stream());
    let tensor = cuda.slice(&mine, &[1.0_f32, 2.0]).into_tensor([2, 1]).unwrap();
    let first = tensor.data();
    cuda.kernel(&default, first.addr() as u64, bytes(&[7.0_f32]));
    let tensor = tensor.index_axis(0, 1).unwrap();
    let part = (tensor.data(), tensor.device(), tensor.access());
    let tensor = cuda.without_waits(|| tensor.try_into_slice::<CudaSlice<f32>>()).unwrap_err();
    assert!(context.check_err().is_err());
    assert_eq!((tensor.shape(), tensor.strides()), (&[1][..], &[1][..]));
    assert_eq!((tensor.data(), tensor.device(), tensor.access()), part);
    let slice = tensor.try_into_slice::<CudaSlice<f32>>().unwrap();
    assert_eq!(common::fetched(&mine, &slice.as_view()), [7.0, 2.0]);
}

#[test]
fn a_copy_that_begins_with_an_error_is_made_before_its_source_is_freed() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let mine = context.new_stream().unwrap();
    for ordinal in [0, 1] {
        let yours = cuda.context(ordinal).new_stream().unwrap();
        let tensor = cuda.slice(&mine, &[1.0_f32, 2.0]).into_tensor([2]).unwrap();
        let copied = cuda.with_failing_copies(|| tensor.copy_to(&yours));
        assert!(copied.is_err(), "{ordinal}");
        drop(tensor);
        // The stream that frees is done before the one that copies, unless it waits.
        mine.synchronize().unwrap();
        context.default_stream().synchronize().unwrap();
        yours.synchronize().unwrap();
        assert_eq!(cuda.faults(), 0, "{ordinal}");
    }
}
