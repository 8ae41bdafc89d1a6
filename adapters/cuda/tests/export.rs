//! Memory of cudarc as tensors, on a stand-in for the driver: no GPU.

mod common;

use std::ptr;
use std::thread;

use common::cuda;
use cudarc::driver::{
    CudaContext, CudaSlice, DevicePtr, HostSlice, PinnedHostSlice, UnifiedSlice,
    sys::CUmemAttach_flags,
};
use dlbridge::{Access, DataType, Device, DeviceType, Tensor};
use dlbridge_cuda::{Error, SliceExt, TensorExt, device_of, to_device};
use dlbridge_testing::numbers;

#[test]
fn slice_becomes_tensor_on_the_default_stream() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, yours) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let slice = cuda.slice(&mine, &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let address = common::address(&slice);
    let waits = cuda.host_waits();
    let tensor = slice.into_tensor([2, 3]).unwrap();
    assert_eq!(cuda.host_waits(), waits, "the host does not wait");
    assert_eq!((tensor.shape(), tensor.strides()), (&[2, 3][..], &[3, 1][..]));
    assert_eq!((tensor.dtype(), tensor.byte_offset()), (DataType::FLOAT32, 0));
    assert_eq!(tensor.device(), Device::new(DeviceType::CUDA, 0));
    assert_eq!((tensor.data().addr() as u64, tensor.access()), (address, Access::Exclusive));
    assert!(tensor.view::<f32>().is_err(), "the CPU cannot read it");
    assert_eq!(cuda.now(address, 4), [0xcc; 4], "the kernel has not run yet");
    assert_eq!(numbers(&tensor.to_host(&yours).unwrap()), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn default_stream_waits_for_all_streams_that_used_the_slice() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let source = cuda.slice(&other, &[7.0_f32, 8.0]);
    let mut slice = cuda.slice(&mine, &[1.0_f32, 2.0]);
    other.memcpy_dtod(&source, &mut slice).unwrap();
    let tensor = slice.into_tensor([2]).unwrap();
    let default = context.default_stream();
    assert_eq!(numbers(&tensor.to_host(&default).unwrap()), [7.0, 8.0]);
}

#[test]
fn default_stream_waits_for_dropped_streams() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let default = context.default_stream();
    let mut slice = cuda.slice(&default, &[1.0_f32, 2.0]);
    let other = context.new_stream().unwrap();
    other.memset_zeros(&mut slice).unwrap();
    drop(other);
    assert!(!context.is_in_multi_stream_mode(), "cudarc ignores events now");
    let between = cuda.stream_waits();
    let tensor = slice.into_tensor([2]).unwrap();
    // Two waits of the default stream for the two events, and one of the stream that makes cudarc read them.
    assert_eq!(cuda.stream_waits() - between, 3);
    assert_eq!(numbers(&tensor.to_host(&default).unwrap()), [0.0, 0.0]);
}

#[test]
fn memory_is_freed_on_its_stream_after_consumers_work() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, default) = (context.new_stream().unwrap(), context.default_stream());
    let slice = cuda.slice(&mine, &[1.0_f32; 4]);
    let (address, before) = (common::address(&slice), cuda.regions());
    let managed = slice.into_tensor([4]).unwrap().into_raw();
    // A consumer's kernel on the order stream, still pending when the consumer calls the deleter.
    cuda.kernel(&default, address, &[5; 16]);
    // SAFETY: `managed` is from `into_raw`, and its deleter is called once.
    unsafe { (*managed).deleter.unwrap()(managed) };
    assert_ne!(cuda.now(address, 4), [0xdd; 4], "the streams free it later");
    mine.synchronize().unwrap();
    assert_eq!((cuda.faults(), cuda.regions()), (0, before - 1), "after the kernel, and once");
}

#[test]
fn deleter_on_any_thread_keeps_the_current_context() {
    let Some(cuda) = cuda() else { return };
    let (first, second) = (cuda.context(0), cuda.context(1));
    // With only the default stream, cudarc does not even make the context current.
    let (default, before) = (first.default_stream(), cuda.regions());
    let tensor = cuda.slice(&default, &[1.0_f32; 4]).into_tensor([4]).unwrap();
    // This tensor holds the last reference to its context.
    let stream = cuda.context(0).new_stream().unwrap();
    let alone = cuda.slice(&stream, &[1.0_f32; 4]).into_tensor([4]).unwrap();
    let alone = alone.into_cuda::<f32>(&stream).unwrap();
    drop(stream);
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(cuda.current().is_null());
            drop(tensor);
            assert!(cuda.current().is_null(), "no context before, and none after");
            drop(alone);
            assert!(cuda.current().is_null());
        });
    });
    assert_eq!(cuda.regions(), before);
    let tensor = cuda.slice(&default, &[1.0_f32; 4]).into_tensor([4]).unwrap();
    second.bind_to_thread().unwrap();
    let theirs = cuda.current();
    drop(tensor);
    assert_eq!(cuda.current(), theirs);
    assert_eq!(cuda.regions(), before);
    first.check_err().unwrap();
}

#[test]
fn stored_context_error_does_not_stop_a_drop() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, before) = (context.new_stream().unwrap(), cuda.regions());
    let tensor = cuda.slice(&mine, &[1.0_f32; 4]).into_tensor([4]).unwrap();
    let error = context.default_stream().clone_htod(&[0_u8; 0]).err().unwrap();
    context.record_err::<()>(Err(error));
    drop(tensor);
    assert_eq!(cuda.regions(), before);
    assert_eq!(context.check_err().err(), Some(error), "the context still stores it");
}

#[test]
fn try_into_slice_returns_the_original_slice() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let slice = cuda.slice(&mine, &[1.0_f32, 2.0, 3.0, 4.0]);
    let address = common::address(&slice);
    let part = slice.into_tensor([2, 2]).unwrap().index_axis(0, 1).unwrap();
    let part = part.try_into_slice::<CudaSlice<i32>>().err().unwrap();
    let part = part.try_into_slice::<UnifiedSlice<f32>>().err().unwrap();
    // A consumer's work on the order stream.
    cuda.kernel(&context.default_stream(), address, common::bytes(&[9.0_f32]));
    // SAFETY: the pointer is from `into_raw`.
    let part = unsafe { Tensor::from_raw(part.into_raw()) }.unwrap();
    let slice: CudaSlice<f32> = part.try_into_slice().unwrap();
    assert_eq!((slice.len(), common::address(&slice)), (4, address));
    assert_eq!(common::fetched(&other, &slice.as_view()), [9.0, 2.0, 3.0, 4.0], "on any stream");
    drop(slice);
    let other = Tensor::from(vec![1.0_f32]).try_into_slice::<CudaSlice<f32>>();
    assert_eq!(other.err().unwrap().len(), 1);
    let shared = cuda.slice(&mine, &[1.0_f32]).into_tensor([1]).unwrap().into_shared();
    assert!(shared.share().try_into_slice::<CudaSlice<f32>>().is_err(), "the memory is shared");
}

#[test]
fn unchecked_elements_do_not_become_a_slice_again() {
    let Some(cuda) = cuda() else { return };
    let stream = cuda.context(0).new_stream().unwrap();
    let tensor = cuda.slice(&stream, &[true, false]).into_tensor([2]).unwrap();
    assert_eq!(tensor.dtype(), DataType::BOOL);
    assert_eq!(tensor.to_host(&stream).unwrap().view::<bool>().unwrap().to_vec(), [true, false]);
    let tensor = tensor.try_into_slice::<CudaSlice<bool>>().err().unwrap();
    let refusal = tensor.into_cuda::<bool>(&stream).unwrap_err();
    assert!(matches!(refusal, Error::Unchecked { dtype: DataType::BOOL }), "{refusal}");
}

#[test]
fn managed_and_pinned_memory_have_their_devices() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(1);
    let stream = context.new_stream().unwrap();
    // SAFETY: the test writes all elements before it reads them.
    let mut unified = unsafe { context.alloc_unified::<f32>(3, true) }.unwrap();
    unified.as_mut_slice().unwrap().copy_from_slice(&[1.0, 2.0, 3.0]);
    stream.memcpy_htod(&[5.0_f32], &mut unified.slice_mut(1..2)).unwrap();
    let tensor = unified.into_tensor([3]).unwrap();
    assert_eq!(tensor.device(), Device::new(DeviceType::CUDA_MANAGED, 1));
    assert!(tensor.view::<f32>().is_err(), "a kernel may be using it");
    let address = tensor.data().addr() as u64;
    assert_eq!(device_of(address).unwrap(), tensor.device());
    let other = context.new_stream().unwrap();
    assert_eq!(numbers(&tensor.to_host(&other).unwrap()), [1.0, 5.0, 3.0]);
    let unified: UnifiedSlice<f32> = tensor.try_into_slice().unwrap();
    assert_eq!(unified.as_slice().unwrap(), [1.0, 5.0, 3.0]);

    // SAFETY: the test writes all elements before it reads them.
    let mut pinned = unsafe { context.alloc_pinned::<f32>(2) }.unwrap();
    pinned.as_mut_slice().unwrap().copy_from_slice(&[0.0; 2]);
    let source = cuda.slice(&stream, &[8.0_f32, 9.0]);
    stream.memcpy_dtoh(&source, &mut pinned).unwrap();
    let tensor = pinned.into_tensor([2, 1]).unwrap();
    assert_eq!(tensor.device(), Device::new(DeviceType::CUDA_HOST, 0));
    assert_eq!(device_of(tensor.data().addr() as u64).unwrap(), tensor.device());
    assert_eq!(numbers(&tensor), [8.0, 9.0], "the export waited for the copy");
    assert_eq!(
        numbers(&to_device(&tensor, &stream).unwrap().to_host(&stream).unwrap()),
        [8.0, 9.0]
    );
    let refusal = tensor.to_host(&stream).unwrap_err();
    assert!(matches!(refusal, Error::NotCuda { .. }), "{refusal}");
    let pinned: PinnedHostSlice<f32> = tensor.try_into_slice().unwrap();
    assert_eq!(HostSlice::len(&pinned), 2);
}

#[test]
fn managed_memory_is_freed_after_consumers_work() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    // SAFETY: the test writes all elements before it reads them.
    let unified = unsafe { context.alloc_unified::<f32>(2, true) }.unwrap();
    let tensor = unified.into_tensor([2]).unwrap();
    cuda.kernel(&context.default_stream(), tensor.data().addr() as u64, &[1; 8]);
    drop(tensor);
    assert_eq!((cuda.regions(), cuda.faults()), (0, 0));
}

#[test]
fn managed_memory_of_one_stream_is_refused_on_another() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let stream = context.new_stream().unwrap();
    let attached = || {
        // SAFETY: the test does not read it.
        let mut unified = unsafe { context.alloc_unified::<f32>(2, true) }.unwrap();
        unified.attach(&stream, CUmemAttach_flags::CU_MEM_ATTACH_SINGLE).unwrap();
        unified
    };
    let refusal = attached().into_tensor([2]).unwrap_err();
    assert_eq!(refusal.to_string(), "the CUDA driver: CUDA_ERROR_NOT_PERMITTED (code 800)");
    assert!(attached().into_tensor_on([2], &stream).is_ok());
}

#[test]
fn order_stream_waits_for_pending_work_on_managed_memory() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, agreed) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    // SAFETY: the test writes all elements before it reads them.
    let mut unified = unsafe { context.alloc_unified::<u8>(3, true) }.unwrap();
    unified.attach(&mine, CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL).unwrap();
    let (address, note) = unified.device_ptr(&agreed);
    drop(note);
    let third = context.new_stream().unwrap();
    third.memcpy_htod(&[1], &mut unified.slice_mut(..1)).unwrap();
    cuda.kernel(&mine, address + 1, &[2]);
    cuda.kernel(&context.default_stream(), address + 2, &[3]);
    let tensor = unified.into_tensor_on([3], &agreed).unwrap();
    agreed.synchronize().unwrap();
    assert_eq!(cuda.now(tensor.data().addr() as u64, 3), [1, 2, 3]);
}

#[test]
fn export_on_agreed_stream_waits_for_the_slice() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, agreed) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let slice = cuda.slice(&mine, &[1.0_f32, 2.0]);
    let address = common::address(&slice);
    let tensor = slice.into_tensor_on([2], &agreed).unwrap();
    agreed.synchronize().unwrap();
    assert_eq!(
        cuda.now(address, 8),
        common::bytes(&[1.0_f32, 2.0]),
        "it waits for the slice's stream"
    );
    cuda.kernel(&agreed, address, &[3; 8]);
    drop(tensor);
    assert_eq!(cuda.regions(), 0);
    let slice = cuda.slice(&mine, &[1.0_f32, 2.0]);
    let elsewhere = cuda.context(1).default_stream();
    let refusal = slice.into_tensor_on([2], &elsewhere).unwrap_err();
    assert!(matches!(refusal, Error::OtherContext), "{refusal}");
}

#[test]
fn order_stream_waits_for_per_thread_stream_of_other_thread() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let agreed = context.new_stream().unwrap();
    let slice = thread::scope(|scope| {
        let work = || cuda.slice(&context.per_thread_stream(), &[1.0_f32, 2.0]);
        scope.spawn(work).join().unwrap()
    });
    let tensor = slice.into_tensor_on([2], &agreed).unwrap();
    agreed.synchronize().unwrap();
    let bytes = cuda.now(tensor.data().addr() as u64, 8);
    assert_eq!(bytes, common::bytes(&[1.0_f32, 2.0]));
    drop(tensor);
    let slice = cuda.slice(&agreed, &[1.0_f32]);
    let refusal = slice.into_tensor_on([1], &context.per_thread_stream()).unwrap_err();
    assert!(matches!(refusal, Error::PerThread), "{refusal}");
}

#[test]
fn wrong_shape_is_refused_and_memory_freed() {
    let Some(cuda) = cuda() else { return };
    let stream = cuda.context(0).new_stream().unwrap();
    for shape in [&[3][..], &[2, 3], &[0], &[usize::MAX, 2], &[]] {
        let refusal = cuda.slice(&stream, &[1.0_f32, 2.0]).into_tensor(shape).unwrap_err();
        assert!(matches!(refusal, Error::Tensor(_)), "{shape:?}: {refusal}");
        assert_eq!(cuda.regions(), 0, "{shape:?}");
    }
    let refusal = device_of(ptr::from_ref(&stream).addr() as u64).unwrap_err();
    assert!(matches!(refusal, Error::UnknownAddress { .. }), "{refusal}");
}

#[test]
fn non_primary_context_is_refused() {
    let Some(cuda) = cuda() else { return };
    let primary = cuda.context(0);
    let tensor = to_device(&[1.0_f32], &primary.default_stream()).unwrap();
    let stream = CudaContext::new_non_primary(0, 0).unwrap().default_stream();
    let refusal = cuda.slice(&stream, &[1.0_f32]).into_tensor([1]).unwrap_err();
    assert!(matches!(refusal, Error::NotPrimary), "{refusal}");
    let refusal = to_device(&[1.0_f32], &stream).unwrap_err();
    assert!(matches!(refusal, Error::NotPrimary), "{refusal}");
    assert!(matches!(tensor.to_host(&stream), Err(Error::NotPrimary)));
    assert!(matches!(tensor.copy_to(&stream), Err(Error::NotPrimary)));
    assert!(matches!(tensor.into_cuda::<f32>(&stream), Err(Error::NotPrimary)));
}

#[test]
fn copies_that_cudarc_does_not_record_are_awaited() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let default = context.default_stream();
    assert!(!context.is_in_multi_stream_mode());
    // SAFETY: the copy below writes all elements.
    let mut pinned = unsafe { context.alloc_pinned::<f32>(2) }.unwrap();
    let source = cuda.slice(&default, &[8.0_f32, 9.0]);
    default.memcpy_dtoh(&source, &mut pinned).unwrap();
    assert_eq!(numbers(&pinned.into_tensor([2]).unwrap()), [8.0, 9.0]);
    // SAFETY: the copy below writes all elements.
    let mut unified = unsafe { context.alloc_unified::<f32>(2, true) }.unwrap();
    default.memcpy_dtod(&source, &mut unified).unwrap();
    let tensor = unified.into_tensor([2]).unwrap();
    cuda.kernel(&default, tensor.data().addr() as u64, common::bytes(&[5.0_f32]));
    let unified: UnifiedSlice<f32> = tensor.try_into_slice().unwrap();
    assert_eq!(unified.as_slice().unwrap(), [5.0, 9.0]);
}

#[test]
fn pinned_memory_is_freed_after_copies_of_its_elements() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let stream = context.new_stream().unwrap();
    let tensor = || {
        // SAFETY: the test writes all elements before it reads them.
        let mut pinned = unsafe { context.alloc_pinned::<f32>(2) }.unwrap();
        pinned.as_mut_slice().unwrap().copy_from_slice(&[1.0, 2.0]);
        pinned.into_tensor([2]).unwrap()
    };
    let copied = |tensor: &Tensor| {
        let elements = tensor.view::<f32>().unwrap();
        stream.clone_htod(elements.as_slice().unwrap()).unwrap()
    };
    let first = tensor();
    let target = copied(&first);
    drop(first);
    assert_eq!(common::fetched(&stream, &target.as_view()), [1.0, 2.0]);
    let second = tensor();
    let target = copied(&second);
    let mut pinned: PinnedHostSlice<f32> = second.try_into_slice().unwrap();
    pinned.as_mut_slice().unwrap().fill(0.0);
    assert_eq!(
        common::fetched(&stream, &target.as_view()),
        [1.0, 2.0],
        "the copy ends before the write"
    );
}
