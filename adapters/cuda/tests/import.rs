//! Tensors as memory of cudarc, on a stand-in for the driver: no GPU.

mod common;

use std::sync::Arc;
use std::thread;

use common::{Cuda, cuda, fetched};
use cudarc::driver::{CudaSlice, CudaStream};
use dlbridge::{Access, DataType, Device, DeviceType, RawParts, Tensor};
use dlbridge_cuda::{CudaTensor, Error, SliceExt, TensorExt, to_device};
use dlbridge_testing::{Counted, Drops, Narrow, numbers, through_c, through_legacy_c};

/// Memory of a library other than cudarc, on device 0. Its deleter frees it at once, without any wait.
struct Foreign {
    memory: Option<CudaSlice<f32>>,
    _deleted: Counted<()>,
    /// The contents of the memory when it was deleted, after the pending work of the default stream.
    seen: Arc<std::sync::Mutex<Vec<f32>>>,
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let memory = self.memory.take().unwrap();
        let default = memory.context().default_stream();
        memory.context().bind_to_thread().unwrap();
        // SAFETY: its own memory, read by address on the default stream, so that cudarc does not record a use.
        unsafe {
            let mut seen = vec![0.0; memory.len()];
            let address = common::address(&memory);
            cudarc::driver::result::memcpy_dtoh_async(&mut seen, address, default.cu_stream())
                .unwrap();
            default.synchronize().unwrap();
            *self.seen.lock().unwrap() = seen;
        }
    }
}

/// Records what happened to a foreign tensor.
#[derive(Default)]
struct Fate {
    deleted: Drops,
    seen: Arc<std::sync::Mutex<Vec<f32>>>,
}

impl Fate {
    fn deleted(&self) -> usize {
        self.deleted.count()
    }

    fn seen(&self) -> Vec<f32> {
        self.seen.lock().unwrap().clone()
    }
}

/// Four elements that a queued kernel on the default stream writes; `change` may modify the parts.
fn foreign(
    cuda: &Cuda,
    ordinal: usize,
    change: impl FnOnce(RawParts) -> RawParts,
    (shape, strides): (&[i64], &[i64]),
) -> (Tensor, Fate) {
    let (context, fate) = (cuda.context(ordinal), Fate::default());
    let default = context.default_stream();
    let memory = cuda.slice(&default, &[1.0_f32, 2.0, 3.0, 4.0]);
    let data = std::ptr::without_provenance_mut(common::address(&memory) as usize);
    let parts = RawParts {
        device: Device::new(DeviceType::CUDA, ordinal as i32),
        ..RawParts::new(data, DataType::FLOAT32)
    };
    let owner = Foreign {
        memory: Some(memory),
        _deleted: Counted::new((), &fate.deleted),
        seen: fate.seen.clone(),
    };
    // SAFETY: four floats, and no test accesses others.
    let tensor = unsafe { Tensor::from_raw_parts(owner, change(parts), shape, Some(strides)) };
    (tensor.unwrap(), fate)
}

const SQUARE: (&[i64], &[i64]) = (&[2, 2], &[2, 1]);

fn plain(cuda: &Cuda) -> (Tensor, Fate) {
    foreign(cuda, 0, |parts| parts, SQUARE)
}

#[test]
fn tensor_becomes_memory_after_producers_work() {
    let Some(cuda) = cuda() else { return };
    for ordinal in 0..2 {
        let (tensor, fate) = foreign(&cuda, ordinal, |parts| parts, SQUARE);
        let context = cuda.context(ordinal);
        let (mine, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let waits = cuda.host_waits();
        let memory = tensor.into_cuda::<f32>(&mine).unwrap();
        assert_eq!(cuda.host_waits(), waits, "the host does not wait");
        assert_eq!((memory.shape(), memory.view().len()), (&[2, 2][..], 4));
        assert_eq!(memory.stream(), &mine);
        assert_eq!(fetched(&mine, &memory.view()), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(fetched(&other, &memory.view().slice(1..3)), [2.0, 3.0]);
        assert_eq!(fate.deleted(), 0);
        drop(memory);
        assert_eq!(fate.deleted(), 1);
    }
}

#[test]
fn other_streams_wait_for_the_producer() {
    let Some(cuda) = cuda() else { return };
    let (tensor, _fate) = plain(&cuda);
    let context = cuda.context(0);
    let (mine, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    cuda.kernel(&context.default_stream(), tensor.data().addr() as u64, common::bytes(&[6.0_f32]));
    let memory = tensor.into_cuda::<f32>(&mine).unwrap();
    assert_eq!(fetched(&other, &memory.view()), [6.0, 2.0, 3.0, 4.0]);
}

#[test]
fn producer_waits_for_consumers_work() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let source = cuda.slice(&other, &[9.0_f32, 8.0]);
    // One write with cudarc, on a stream other than the importer's; one by a kernel on the importer's.
    let (tensor, fate) = plain(&cuda);
    let address = tensor.data().addr() as u64;
    let mut memory = tensor.into_cuda::<f32>(&mine).unwrap();
    other.memcpy_dtod(&source, &mut memory.view_mut().unwrap().slice_mut(2..)).unwrap();
    cuda.kernel(&mine, address, common::bytes(&[7.0_f32]));
    let waits = cuda.host_waits();
    let tensor = memory.into_tensor();
    assert_eq!(
        (cuda.host_waits(), fate.deleted()),
        (waits, 0),
        "the host does not wait, and the tensor lives"
    );
    drop(tensor);
    assert_eq!((fate.deleted(), fate.seen()), (1, vec![7.0, 2.0, 9.0, 8.0]));
}

#[test]
fn deleter_runs_after_pending_reads() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    // SAFETY: the copy below writes all elements.
    let mut target = unsafe { other.alloc::<f32>(4) }.unwrap();
    let tensor = cuda.slice(&mine, &[1.0_f32, 2.0, 3.0, 4.0]).into_tensor([4]).unwrap();
    let memory = tensor.into_cuda::<f32>(&mine).unwrap();
    other.memcpy_dtod(&memory.view(), &mut target).unwrap();
    drop(memory);
    // The memory is freed on its stream now, which waits for the default stream, which waits for the copy.
    mine.synchronize().unwrap();
    assert_eq!(fetched(&other, &target.as_view()), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(cuda.faults(), 0);
}

#[test]
fn deleter_runs_after_work_on_dropped_stream() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (tensor, fate) = plain(&cuda);
    let default = context.default_stream();
    let mut memory = tensor.into_cuda::<f32>(&default).unwrap();
    let other = context.new_stream().unwrap();
    other.memset_zeros(&mut memory.view_mut().unwrap()).unwrap();
    drop(other);
    assert!(!context.is_in_multi_stream_mode(), "cudarc ignores events now");
    let waits = cuda.stream_waits();
    drop(memory);
    assert!(cuda.stream_waits() - waits >= 3, "including two waits of the default stream");
    assert_eq!(fate.seen(), [0.0; 4]);
}

#[test]
fn memory_is_dropped_on_any_thread() {
    let Some(cuda) = cuda() else { return };
    let (tensor, fate) = plain(&cuda);
    let stream = cuda.context(0).new_stream().unwrap();
    let mut memory = tensor.into_cuda::<f32>(&stream).unwrap();
    stream.memset_zeros(&mut memory.view_mut().unwrap()).unwrap();
    thread::spawn(move || drop(memory)).join().unwrap();
    assert_eq!((fate.deleted(), fate.seen()), (1, vec![0.0; 4]));
}

#[test]
fn events_are_destroyed_without_leaks() {
    let Some(cuda) = cuda() else { return };
    let stream = cuda.context(0).new_stream().unwrap();
    let before = cuda.events();
    for _ in 0..3 {
        let (tensor, _fate) = plain(&cuda);
        let events = cuda.events();
        let memory = tensor.into_cuda::<f32>(&stream).unwrap();
        assert_eq!(cuda.events(), events + 2);
        let tensor = memory.into_tensor();
        assert_eq!(cuda.events(), events);
        drop(tensor);
    }
    assert_eq!(cuda.events(), before);
}

#[test]
fn too_few_events_return_an_error() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let stream = context.default_stream();
    let (tensor, fate) = plain(&cuda);
    let mut all = Vec::new();
    while let Ok(event) = context.new_event(None) {
        all.push(event);
    }
    all.pop();
    let refusal = tensor.into_cuda::<f32>(&stream).unwrap_err();
    assert_eq!(refusal.to_string(), "the CUDA driver: CUDA_ERROR_OUT_OF_MEMORY (code 2)");
    assert_eq!(fate.deleted(), 1);
}

#[test]
fn failed_stream_wait_becomes_a_host_wait() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let mine = context.new_stream().unwrap();
    let (tensor, fate) = plain(&cuda);
    let address = tensor.data().addr() as u64;
    let memory = tensor.into_cuda::<f32>(&mine).unwrap();
    let owned = cuda.slice(&mine, &[1.0_f32, 2.0]).into_tensor([2]).unwrap();
    let mut all = Vec::new();
    while let Ok(event) = context.new_event(None) {
        all.push(event);
    }
    cuda.kernel(&mine, address, common::bytes(&[7.0_f32]));
    let tensor = memory.into_tensor();
    context.check_err().unwrap();
    // The events that the conversion freed.
    all.extend(std::iter::from_fn(|| context.new_event(None).ok()));
    drop(tensor);
    assert_eq!((fate.deleted(), fate.seen()), (1, vec![7.0, 2.0, 3.0, 4.0]));
    all.extend(std::iter::from_fn(|| context.new_event(None).ok()));
    let waits = cuda.host_waits();
    cuda.kernel(&context.default_stream(), owned.data().addr() as u64, &[1; 8]);
    drop(owned);
    assert!(cuda.host_waits() > waits);
    drop(all);
    mine.synchronize().unwrap();
    assert_eq!(cuda.faults(), 0);
}

#[test]
fn import_on_agreed_stream_waits_for_it() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (agreed, mine) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let slice = cuda.slice(&agreed, &[1.0_f32, 2.0]);
    let tensor = slice.into_tensor_on([2], &agreed).unwrap();
    let memory = tensor.into_cuda_on::<f32>(&mine, &agreed).unwrap();
    assert_eq!(fetched(&mine, &memory.view()), [1.0, 2.0]);
    let tensor = memory.into_tensor();
    let waits = cuda.stream_waits();
    let memory = tensor.into_cuda_on::<f32>(&agreed, &agreed).unwrap();
    assert!(cuda.stream_waits() - waits <= 2, "no wait for another stream");
    drop(memory);
    let tensor = to_device(&[1.0_f32], &mine).unwrap();
    let elsewhere = cuda.context(1).default_stream();
    assert!(matches!(tensor.into_cuda_on::<f32>(&mine, &elsewhere), Err(Error::OtherContext)));
}

#[test]
fn view_mut_depends_on_access_and_device() {
    let Some(cuda) = cuda() else { return };
    let stream = cuda.context(0).new_stream().unwrap();
    let writable = |access, device_type| {
        let change = |parts| RawParts { access, device: Device::new(device_type, 0), ..parts };
        let (tensor, fate) = foreign(&cuda, 0, change, SQUARE);
        let mut memory = tensor.into_cuda::<f32>(&stream).unwrap();
        assert_eq!(fetched(&stream, &memory.view()), [1.0, 2.0, 3.0, 4.0]);
        let written = memory.view_mut().map(|mut view| stream.memset_zeros(&mut view).unwrap());
        drop(memory);
        assert_eq!(fate.seen()[0], if written.is_ok() { 0.0 } else { 1.0 });
        written
    };
    let (cuda, managed) = (DeviceType::CUDA, DeviceType::CUDA_MANAGED);
    writable(Access::Exclusive, cuda).unwrap();
    writable(Access::Shared, cuda).unwrap();
    writable(Access::Exclusive, managed).unwrap();
    let refusal = writable(Access::Shared, managed).unwrap_err();
    assert!(matches!(refusal, Error::Tensor(dlbridge::Error::Shared)), "{refusal}");
    for device_type in [cuda, managed] {
        let refusal = writable(Access::ReadOnly, device_type).unwrap_err();
        assert!(matches!(refusal, Error::Tensor(dlbridge::Error::ReadOnly)), "{refusal}");
    }
}

#[test]
fn unsupported_tensor_is_refused_and_deleted_once() {
    let Some(cuda) = cuda() else { return };
    let stream = cuda.context(0).new_stream().unwrap();
    let refused = |tensor: (Tensor, Fate), stream: &Arc<CudaStream>| {
        let refusal = tensor.0.into_cuda::<f32>(stream).unwrap_err();
        assert_eq!(tensor.1.deleted(), 1, "{refusal}");
        refusal
    };
    let columns = foreign(&cuda, 0, |parts| parts, (&[2, 2], &[1, 2]));
    let refusal = refused(columns, &stream);
    assert!(matches!(&refusal, Error::Strided { strides } if *strides == [1, 2]), "{refusal}");
    assert!(refusal.to_string().contains("to_host"), "{refusal}");
    let refusal = refused(foreign(&cuda, 1, |parts| parts, SQUARE), &stream);
    assert!(matches!(refusal, Error::OtherDevice { ordinal: 0, .. }), "{refusal}");
    let integers = |parts| RawParts { dtype: DataType::INT32, ..parts };
    let refusal = refused(foreign(&cuda, 0, integers, SQUARE), &stream);
    assert!(refusal.to_string().contains("int32"), "{refusal}");
    let between = |parts: RawParts| RawParts { data: parts.data.wrapping_byte_add(2), ..parts };
    let refusal = refused(foreign(&cuda, 0, between, (&[2], &[1])), &stream);
    assert!(matches!(refusal, Error::Tensor(dlbridge::Error::Misaligned { .. })), "{refusal}");
    let elsewhere = |parts| RawParts { device: Device::new(DeviceType::ROCM, 0), ..parts };
    let refusal = refused(foreign(&cuda, 0, elsewhere, SQUARE), &stream);
    assert!(matches!(refusal, Error::NotCuda { .. }), "{refusal}");
    let unnumbered = |parts| RawParts { device: Device::new(DeviceType::CUDA, -1), ..parts };
    let refusal = refused(foreign(&cuda, 0, unnumbered, SQUARE), &stream);
    assert!(matches!(refusal, Error::OtherDevice { .. }), "{refusal}");
    let host = Tensor::from(vec![1.0_f32]).into_cuda::<f32>(&stream).unwrap_err();
    assert!(host.to_string().contains("copy it there with to_device"), "{host}");
}

#[test]
fn subbyte_and_untyped_elements_become_bytes() {
    let Some(cuda) = cuda() else { return };
    let stream = cuda.context(0).new_stream().unwrap();
    let nibbles = |padded| {
        let change = move |parts| RawParts {
            dtype: DataType::FLOAT4_E2M1FN,
            subbyte_padded: padded,
            ..parts
        };
        foreign(&cuda, 0, change, (&[4], &[1])).0
    };
    let memory: CudaTensor<Narrow> = nibbles(true).into_cuda(&stream).unwrap();
    assert_eq!(memory.view().len(), 4);
    let refusal = nibbles(false).into_cuda::<Narrow>(&stream).unwrap_err();
    assert!(matches!(refusal, Error::Tensor(dlbridge::Error::SubbytePacked { .. })), "{refusal}");
    assert_eq!(nibbles(false).into_cuda_bytes(&stream).unwrap().view().len(), 2);
    let lanes = |parts| RawParts { dtype: DataType::FLOAT32.with_lanes(2), ..parts };
    let memory = foreign(&cuda, 0, lanes, (&[2], &[1])).0.into_cuda_bytes(&stream).unwrap();
    assert_eq!(fetched(&stream, &memory.view()), common::bytes(&[1.0_f32, 2.0, 3.0, 4.0]));
    let refusal = foreign(&cuda, 0, |parts| parts, (&[2, 2], &[1, 2])).0.into_cuda_bytes(&stream);
    assert!(matches!(refusal, Err(Error::Strided { .. })));
}

#[test]
fn empty_tensor_without_address_becomes_memory() {
    let Some(cuda) = cuda() else { return };
    let stream = cuda.context(0).new_stream().unwrap();
    let (tensor, fate) = foreign(&cuda, 0, |parts| parts, (&[0, 2], &[2, 1]));
    assert!(tensor.data().is_null());
    let mut memory = tensor.into_cuda::<f32>(&stream).unwrap();
    assert!(memory.view().is_empty());
    stream.memset_zeros(&mut memory.view_mut().unwrap()).unwrap();
    assert_eq!(fetched(&stream, &memory.view()), [0.0; 0]);
    drop(memory);
    assert_eq!(fate.deleted(), 1);
}

#[test]
fn slice_becomes_memory_at_its_offset() {
    let Some(cuda) = cuda() else { return };
    let stream = cuda.context(0).new_stream().unwrap();
    let row = plain(&cuda).0.index_axis(0, 1).unwrap();
    let memory = row.into_cuda::<f32>(&stream).unwrap();
    assert_eq!(fetched(&stream, &memory.view()), [3.0, 4.0]);
    let tensor = memory.into_tensor();
    assert_eq!(numbers(&tensor.to_host(&stream).unwrap()), [3.0, 4.0]);
}

#[test]
fn round_trip_through_c_is_ordered_and_frees_once() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, yours) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let tensor = through_c(cuda.slice(&mine, &[1.0_f32, 2.0]).into_tensor([2]).unwrap());
    let mut memory = tensor.into_cuda::<f32>(&yours).unwrap();
    yours.memset_zeros(&mut memory.view_mut().unwrap().slice_mut(1..)).unwrap();
    let tensor = through_legacy_c(memory.into_tensor());
    assert_eq!(numbers(&tensor.to_host(&mine).unwrap()), [1.0, 0.0]);
    drop(tensor);
    assert_eq!(cuda.regions(), 0);
}

#[test]
fn cuda_tensor_is_send_and_sync() {
    fn check<T: Send + Sync + 'static>() {}
    check::<CudaTensor<f32>>();
}
