//! Memory of cudarc as borrowed tensors, on a stand-in for the driver: no GPU.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{bytes, cuda, fetched};
use dlbridge::{Device, DeviceType};
use dlbridge_cuda::{BorrowExt, BorrowMutExt, Error, SliceExt, TensorExt};
use dlbridge_testing::numbers;

#[test]
fn view_becomes_a_tensor_during_a_call() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(1);
    let mine = context.new_stream().unwrap();
    let slice = cuda.slice(&mine, &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let default = context.default_stream();
    let result = slice.slice(2..).with_tensor_ref([2, 2], |tensor| {
        assert_eq!((tensor.shape(), tensor.strides()), (&[2, 2][..], &[2, 1][..]));
        assert_eq!(tensor.device(), Device::new(DeviceType::CUDA, 1));
        assert!(tensor.view::<f32>().is_err(), "the CPU cannot read it");
        default.synchronize().unwrap();
        cuda.now(tensor.data().addr() as u64, 16)
    });
    assert_eq!(result.unwrap(), bytes(&[3.0_f32, 4.0, 5.0, 6.0]), "the default stream waits");
    let refusal = slice.with_tensor_ref([7], |_| ()).unwrap_err();
    assert!(matches!(refusal, Error::Tensor(dlbridge::Error::ElementCount { .. })), "{refusal}");
}

#[test]
fn later_work_waits_for_the_call() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let default = context.default_stream();
    let mut slice = cuda.slice(&mine, &[1.0_f32, 2.0, 3.0]);
    let kernel = |mut tensor: dlbridge::TensorRefMut<'_>, number: f32| {
        let first = tensor.dl_tensor().data.addr() as u64;
        cuda.kernel(&default, first, bytes(&[number]));
    };
    slice.with_tensor_ref_mut([3], |tensor| kernel(tensor, 7.0)).unwrap();
    assert_eq!(fetched(&other, &slice.as_view()), [7.0, 2.0, 3.0]);
    slice.slice_mut(1..).with_tensor_ref_mut([2], |tensor| kernel(tensor, 8.0)).unwrap();
    assert_eq!(fetched(&mine, &slice.as_view()), [7.0, 8.0, 3.0]);
    let panic = catch_unwind(AssertUnwindSafe(|| {
        slice.with_tensor_ref_mut([3], |tensor| {
            kernel(tensor, 9.0);
            panic!("in a consumer");
        })
    }));
    assert!(panic.is_err());
    assert_eq!(fetched(&other, &slice.as_view()), [9.0, 8.0, 3.0]);
}

#[test]
fn write_waits_for_reader_of_a_borrowed_tensor() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, reader) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let mut slice = cuda.slice(&mine, &[1.0_f32, 2.0]);
    let mut target = cuda.slice(&reader, &[0.0_f32, 0.0]);
    let copied = slice.with_tensor_ref_on([2], &reader, |tensor| {
        let target = common::address(&target);
        // SAFETY: two floats each, and both allocations live.
        unsafe {
            cudarc::driver::result::memcpy_dtod_async(
                target,
                tensor.data().addr() as u64,
                8,
                reader.cu_stream(),
            )
        }
    });
    copied.unwrap().unwrap();
    mine.memset_zeros(&mut slice).unwrap();
    mine.synchronize().unwrap();
    assert_eq!(fetched(&reader, &target.as_view()), [1.0, 2.0]);
    target
        .with_tensor_ref_mut_on([2], &reader, |tensor| assert_eq!(tensor.as_tensor_ref().len(), 2))
        .unwrap();
    let elsewhere = cuda.context(1).default_stream();
    assert!(matches!(target.with_tensor_ref_on([2], &elsewhere, |_| ()), Err(Error::OtherContext)));
    assert!(matches!(
        target.with_tensor_ref_mut_on([2], &elsewhere, |_| ()),
        Err(Error::OtherContext)
    ));
}

#[test]
fn slices_stream_waits_without_records() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    // SAFETY: only the slice's own stream uses the slice and the tensor, apart from work that this crate synchronises.
    unsafe { context.disable_event_tracking() };
    let (mine, default) = (context.new_stream().unwrap(), context.default_stream());
    let mut slice = cuda.slice(&mine, &[1.0_f32, 2.0]);
    let events = cuda.events();
    slice
        .with_tensor_ref_mut([2], |tensor| {
            let first = tensor.as_tensor_ref().data().addr() as u64;
            cuda.kernel(&default, first, bytes(&[7.0_f32]));
        })
        .unwrap();
    assert_eq!(fetched(&mine, &slice.as_view()), [7.0, 2.0]);
    let tensor = slice.into_tensor([2]).unwrap();
    let other = context.new_stream().unwrap();
    let mut memory = tensor.into_cuda::<f32>(&other).unwrap();
    assert_eq!(cuda.events(), events, "no events without tracking");
    other.memset_zeros(&mut memory.view_mut().unwrap().slice_mut(1..)).unwrap();
    let tensor = memory.into_tensor();
    assert_eq!(numbers(&tensor.to_host(&mine).unwrap()), [7.0, 0.0]);
}
