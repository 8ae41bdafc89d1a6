//! A driver that cannot create events, or cannot wait on the host either, on a stand-in: no GPU.

mod common;

use std::sync::Arc;

use common::{Cuda, address, bytes, cuda};
use cudarc::driver::{CudaSlice, CudaStream, UnifiedSlice};
use dlbridge::{Access, DataType, Device, DeviceType, RawParts, Tensor};
use dlbridge_cuda::{BorrowExt, BorrowMutExt, CudaTensor, SliceExt, TensorExt};
use dlbridge_testing::{Counted, Drops};

/// Foreign memory in use on a stream, where a queued kernel writes a seven.
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
    // SAFETY: two floats, which the tests keep for longer.
    let tensor = unsafe { Tensor::from_raw_parts(owner, parts, &[2_i64], None::<&[i64]>) };
    let memory = tensor.unwrap().into_cuda::<f32>(stream).unwrap();
    cuda.kernel(stream, address(slice), bytes(&[7.0_f32]));
    (memory, deleted)
}

#[test]
fn deleter_without_events_runs_after_a_host_wait() {
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
fn try_into_slice_without_events_waits_on_the_host() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, default) = (context.new_stream().unwrap(), context.default_stream());
    let tensor = cuda.slice(&mine, &[1.0_f32, 2.0]).into_tensor([2]).unwrap();
    let first = tensor.data().addr() as u64;
    cuda.kernel(&default, first, bytes(&[7.0_f32]));
    let slice = cuda.without_events(|| tensor.try_into_slice::<CudaSlice<f32>>()).unwrap();
    assert_eq!(cuda.now(first, 8), bytes(&[7.0_f32, 2.0]));
    drop(slice);
    // SAFETY: the kernel below writes all elements.
    let unified = unsafe { context.alloc_unified::<f32>(2, true) }.unwrap();
    let tensor = unified.into_tensor([2]).unwrap();
    cuda.kernel(&default, tensor.data().addr() as u64, bytes(&[7.0_f32, 8.0]));
    let unified = cuda.without_events(|| tensor.try_into_slice::<UnifiedSlice<f32>>()).unwrap();
    assert_eq!(unified.as_slice().unwrap(), [7.0, 8.0]);
}

#[test]
fn call_without_events_ends_with_a_host_wait() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, default) = (context.new_stream().unwrap(), context.default_stream());
    let mut slice = cuda.slice(&mine, &[1.0_f32, 2.0]);
    let first = address(&slice);
    let end = |number: f32| {
        cuda.kernel(&default, first, bytes(&[number]));
        cuda.fail_events(true);
    };
    slice.with_tensor_ref_mut([2], |_| end(7.0)).unwrap();
    cuda.fail_events(false);
    assert_eq!(cuda.now(first, 8), bytes(&[7.0_f32, 2.0]));
    slice.with_tensor_ref([2], |_| end(8.0)).unwrap();
    cuda.fail_events(false);
    assert_eq!(cuda.now(first, 8), bytes(&[8.0_f32, 2.0]));
    context.check_err().unwrap();
}

#[test]
fn drop_without_events_waits_on_the_host() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, default) = (context.new_stream().unwrap(), context.default_stream());
    let tensor = cuda.slice(&mine, &[1.0_f32, 2.0]).into_tensor([2]).unwrap();
    cuda.kernel(&default, tensor.data().addr() as u64, &[1; 8]);
    // SAFETY: the test does not read it.
    let unified = unsafe { context.alloc_unified::<f32>(2, true) }.unwrap();
    let unified = unified.into_tensor([2]).unwrap();
    cuda.kernel(&default, unified.data().addr() as u64, &[1; 8]);
    cuda.without_events(|| drop((tensor, unified)));
    assert_eq!((cuda.regions(), cuda.faults()), (0, 0));
    let _told = context.check_err();
}

#[test]
fn drop_without_any_wait_does_not_call_the_deleter() {
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
    // The slice belongs to the test.
    mine.synchronize().unwrap();
}

#[test]
fn drop_without_any_wait_does_not_free() {
    let Some(mut cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, default) = (context.new_stream().unwrap(), context.default_stream());
    let tensor = cuda.slice(&mine, &[1.0_f32, 2.0]).into_tensor([2]).unwrap();
    let first = tensor.data().addr() as u64;
    cuda.kernel(&default, first, bytes(&[7.0_f32]));
    cuda.without_waits(|| drop(tensor));
    assert!(context.check_err().is_err());
    // SAFETY: the test does not read it.
    let unified = unsafe { context.alloc_unified::<f32>(2, true) }.unwrap();
    let unified = unified.into_tensor([2]).unwrap();
    // SAFETY: the test does not read it.
    let pinned = unsafe { context.alloc_pinned::<f32>(2) }.unwrap().into_tensor([2]).unwrap();
    cuda.without_waits(|| drop((unified, pinned)));
    assert!(context.check_err().is_err());
    assert_eq!(cuda.regions(), 3);
    assert_eq!(cuda.now(first, 8), bytes(&[7.0_f32, 2.0]));
    cuda.leaked(3, 4);
}

#[test]
fn try_into_slice_without_any_wait_returns_the_tensor() {
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
fn failed_copy_ends_before_its_source_is_freed() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let mine = context.new_stream().unwrap();
    for ordinal in [0, 1] {
        let yours = cuda.context(ordinal).new_stream().unwrap();
        let tensor = cuda.slice(&mine, &[1.0_f32, 2.0]).into_tensor([2]).unwrap();
        let copied = cuda.with_failing_copies(|| tensor.copy_to(&yours));
        assert!(copied.is_err(), "{ordinal}");
        drop(tensor);
        // Without a wait, the stream that frees would finish before the stream that copies.
        mine.synchronize().unwrap();
        context.default_stream().synchronize().unwrap();
        yours.synchronize().unwrap();
        assert_eq!(cuda.faults(), 0, "{ordinal}");
    }
}
