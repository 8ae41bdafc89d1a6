//! Buffers that wgpu shares with another user of the same `VkDevice`, here Vulkan itself.

use std::sync::{Arc, Mutex};
use std::thread;

use ash::vk::Handle;
use dlbridge::{DataType, Device as TensorDevice, DeviceType, RawParts, Tensor};
use dlbridge_wgpu::{
    BufferExt, Error, TENSOR_USAGES, TensorExt, VulkanExt, to_device, wait_for_deleters,
};
use wgpu::hal::api;
use wgpu::{Limits, PollType};

use crate::gpu::{Gpu, gpu};
use crate::raw::{Memory, Vulkan};

/// The first float of each owner's memory when the owner was dropped.
pub(crate) type Seen = Arc<Mutex<Vec<f32>>>;

/// The owner of memory allocated by Vulkan.
struct Producer {
    memory: Arc<Memory>,
    seen: Seen,
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.seen.lock().unwrap().push(self.memory.read()[0]);
    }
}

/// A tensor over memory allocated by Vulkan, with some floats, on the device that wgpu uses.
pub(crate) fn produced(gpu: &Gpu, elements: &[f32]) -> (Tensor, Seen) {
    produced_over(gpu, &Arc::new(Vulkan::of(gpu).memory(elements)))
}

/// The same, over existing memory.
fn produced_over(gpu: &Gpu, memory: &Arc<Memory>) -> (Tensor, Seen) {
    let seen = Seen::default();
    let parts = RawParts {
        device: Vulkan::of(gpu).place(),
        ..RawParts::new(memory.data(), DataType::FLOAT32)
    };
    let owner = Producer { memory: Arc::clone(memory), seen: Arc::clone(&seen) };
    // SAFETY: the owner keeps the buffer, which has `memory.len()` floats.
    let tensor = unsafe { Tensor::from_raw_parts(owner, parts, &[memory.len()], None::<&[i64]>) };
    (tensor.unwrap(), seen)
}

pub(crate) fn export(tensor: &Tensor, gpu: &Gpu) -> dlbridge_wgpu::Result<Tensor> {
    // SAFETY: the tests wait between wgpu's commands and others, and do not use the tensor after they destroy its
    // buffer.
    unsafe { tensor.to_vulkan(&gpu.device, &gpu.queue) }
}

pub(crate) fn import(tensor: Tensor, gpu: &Gpu, size: u64) -> dlbridge_wgpu::Result<Tensor> {
    // SAFETY: the buffer is of that device, has this size unless the call refuses it, is initialised, and nothing else
    // uses it meanwhile.
    unsafe { tensor.into_webgpu(&gpu.device, size) }
}

/// Waits for the device, and for the due deleters.
fn wait(gpu: &Gpu) {
    gpu.device.poll(PollType::wait_indefinitely()).unwrap();
    wait_for_deleters();
}

#[test]
fn exported_handle_has_wgpus_writes() {
    let Some(gpu) = gpu() else { return };
    let tensor = to_device(&[[1.0_f32, 2.0], [3.0, 4.0]], &gpu.device).unwrap();
    let column = tensor.transpose().index_axis(0, 1).unwrap();
    let out = export(&column, &gpu).unwrap();
    let buffer = column.to_buffer().unwrap();
    // SAFETY: the test only compares the handle.
    let handle = unsafe { buffer.as_hal::<api::Vulkan>().unwrap().raw_handle() };
    assert_eq!(out.data().addr() as u64, handle.as_raw());
    assert_eq!(out.device(), Vulkan::of(&gpu).place());
    assert_eq!((out.shape(), out.strides(), out.byte_offset()), (&[2][..], &[2][..], 4));
    drop((column, buffer));
    assert_eq!(Vulkan::of(&gpu).read(&out, 4), [1.0, 2.0, 3.0, 4.0], "the tensor keeps the buffer");
    assert!(!out.is_read_only());
    let tensor = to_device(&[1.0_f32], &gpu.device).unwrap().into_read_only();
    assert!(export(&tensor, &gpu).unwrap().is_read_only());
}

#[test]
fn wgpu_does_not_clear_a_consumers_writes() {
    let Some(gpu) = gpu() else { return };
    // wgpu has never used this buffer, which is read in more than one piece.
    let size = (1 << 22) + 8;
    let tensor = gpu.buffer(size, TENSOR_USAGES).into_tensor::<f32>([size as usize / 4]).unwrap();
    let out = export(&tensor, &gpu).unwrap();
    assert_eq!(Vulkan::of(&gpu).read(&out, 4), [0.0; 4], "it is initialised");
    Vulkan::of(&gpu).fill(&out, 3.0_f32);
    drop(out);
    let host = gpu.host(&tensor);
    assert!(host.iter().all(|&x| x == 3.0), "{:?}", host.iter().position(|&x| x != 3.0));
}

#[test]
fn tensor_of_vulkan_becomes_a_wgpu_buffer() {
    let Some(gpu) = gpu() else { return };
    let (tensor, seen) = produced(&gpu, &[1.0, 2.0, 3.0, 4.0]);
    let data = tensor.data();
    let tensor = tensor.slice(0, 1..4).unwrap().flip(0).unwrap();
    let tensor = import(tensor, &gpu, 16).unwrap();
    assert_eq!(tensor.device(), TensorDevice::new(DeviceType::WEB_GPU, 0));
    assert_eq!((tensor.shape(), tensor.strides(), tensor.byte_offset()), (&[3][..], &[-1][..], 12));
    let buffer = tensor.to_buffer().unwrap();
    assert_eq!((buffer.size(), buffer.usage()), (16, TENSOR_USAGES));
    // SAFETY: the test only compares the handle.
    let handle = unsafe { buffer.as_hal::<api::Vulkan>().unwrap().raw_handle() };
    assert_eq!(handle.as_raw(), data.addr() as u64);
    assert_eq!(gpu.host(&tensor), [4.0, 3.0, 2.0], "nothing is cleared");
    gpu.queue.write_buffer(&buffer, 4, &7.0_f32.to_ne_bytes());
    gpu.queue.submit([]);
    assert_eq!(gpu.host(&tensor), [4.0, 3.0, 7.0]);
    drop(tensor);
    wait(&gpu);
    assert!(seen.lock().unwrap().is_empty(), "a handle of wgpu still lives");
    drop(buffer);
    wait(&gpu);
    assert_eq!(*seen.lock().unwrap(), [1.0], "once");
}

/// Counts in the first float, slowly: lavapipe allows a shader at most 65535 loop iterations.
const SLOW: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<f32>;
    @compute @workgroup_size(1) fn slow() {
        var state = bitcast<u32>(x[1]);
        for (var i = 0; i < 60000; i++) { state = state * 1664525u + 1013904223u; }
        x[0] += select(1.0, 0.0, state == 1u);
    }";

/// Makes the device count from 1 to 201, which takes a while, and does not wait for it.
fn count(gpu: &Gpu, buffer: &wgpu::Buffer) {
    gpu.run(SLOW, &[buffer.as_entire_binding()], 200);
}

#[test]
fn deleter_runs_when_the_device_has_finished() {
    let Some(gpu) = gpu() else { return };
    let (tensor, seen) = produced(&gpu, &[1.0, 2.0]);
    let tensor = import(tensor, &gpu, 8).unwrap();
    let buffer = tensor.to_buffer().unwrap();
    count(&gpu, &buffer);
    thread::scope(|scope| scope.spawn(|| drop((tensor, buffer))).join().unwrap());
    wait(&gpu);
    assert_eq!(*seen.lock().unwrap(), [201.0], "once, and after the last write");
    // The same for a destroyed buffer.
    let (tensor, seen) = produced(&gpu, &[1.0, 2.0]);
    let buffer = import(tensor, &gpu, 8).unwrap().to_buffer().unwrap();
    count(&gpu, &buffer);
    buffer.destroy();
    wait(&gpu);
    assert_eq!(*seen.lock().unwrap(), [201.0]);
    drop(buffer);
    wait(&gpu);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[test]
fn deleter_runs_after_all_wgpu_handles_are_dropped() {
    let Some(gpu) = gpu() else { return };
    let (tensor, seen) = produced(&gpu, &[1.0, 2.0]);
    let tensor = import(tensor, &gpu, 8).unwrap();
    count(&gpu, &tensor.to_buffer().unwrap());
    drop(gpu);
    wait_for_deleters();
    assert!(seen.lock().unwrap().is_empty(), "the tensor still lives");
    drop(tensor);
    wait_for_deleters();
    assert_eq!(*seen.lock().unwrap(), [201.0]);
}

#[test]
fn reimported_tensor_has_the_same_memory() {
    let Some(gpu) = gpu() else { return };
    let (tensor, seen) = produced(&gpu, &[1.0, 2.0]);
    let first = import(tensor, &gpu, 8).unwrap();
    let managed = export(&first, &gpu).unwrap().into_raw();
    drop(first);
    // SAFETY: a valid managed tensor, which this test owns.
    let second = import(unsafe { Tensor::from_raw(managed) }.unwrap(), &gpu, 8).unwrap();
    assert_eq!(gpu.host(&second), [1.0, 2.0]);
    wait(&gpu);
    assert!(seen.lock().unwrap().is_empty());
    count(&gpu, &second.to_buffer().unwrap());
    drop(second);
    wait(&gpu);
    // The outer buffer owned the tensor that owned the inner buffer: the inner deleter runs after the outer one.
    wait(&gpu);
    assert_eq!(*seen.lock().unwrap(), [201.0]);
}

#[test]
fn unsuitable_tensor_is_refused_and_dropped() {
    let Some(gpu) = gpu() else { return };
    let make = || produced(&gpu, &[1.0, 2.0, 3.0]);
    let refused = |tensor: Tensor, seen: Seen, size| {
        let refusal = import(tensor, &gpu, size).unwrap_err();
        assert_eq!(*seen.lock().unwrap(), [1.0], "{refusal}");
        refusal
    };
    let (tensor, seen) = make();
    let refusal = refused(tensor, seen, 8);
    assert!(matches!(refusal, Error::TooSmall { first: 0, end: 12, size: 8 }), "{refusal}");
    let (tensor, seen) = make();
    assert!(matches!(refused(tensor, seen, 0), Error::TooSmall { size: 0, .. }));
    let (tensor, seen) = make();
    assert!(matches!(refused(tensor, seen, 13), Error::UnevenSize { size: 13 }));
    let (tensor, seen) = make();
    assert!(matches!(refused(tensor.slice(0, 1..1).unwrap(), seen, 12), Error::Empty));
    let (tensor, seen) = make();
    let refusal = refused(tensor.into_read_only(), seen, 12);
    assert!(matches!(refusal, Error::Tensor(dlbridge::Error::ReadOnly)), "{refusal}");
    let (tensor, seen) = make();
    let device = TensorDevice::new(DeviceType::VULKAN, 99);
    let parts = RawParts { device, ..RawParts::new(tensor.data(), DataType::FLOAT32) };
    // SAFETY: the owner keeps the buffer.
    let elsewhere = unsafe { Tensor::from_raw_parts(tensor, parts, &[3], None::<&[i64]>) }.unwrap();
    assert!(matches!(refused(elsewhere, seen, 12), Error::OtherDevice));
}

#[test]
fn tensor_elsewhere_is_refused() {
    let Some(gpu) = gpu() else { return };
    let host = || Tensor::from(vec![1.0_f32]);
    assert!(matches!(export(&host(), &gpu), Err(Error::OtherDeviceType { .. })));
    assert!(matches!(import(host(), &gpu, 4), Err(Error::OtherDeviceType { .. })));
    let here = to_device(&host(), &gpu.device).unwrap();
    let there = export(&here, &gpu).unwrap();
    assert!(matches!(export(&there, &gpu), Err(Error::OtherDeviceType { .. })));
    let refusal = there.to_buffer().unwrap_err();
    assert_eq!(refusal.to_string(), format!("the tensor is on {}, not on webgpu", there.device()));
    assert!(matches!(there.to_host(&gpu.device, &gpu.queue), Err(Error::OtherDeviceType { .. })));
    let refusal = import(here, &gpu, 4).unwrap_err();
    assert!(matches!(refusal, Error::OtherDeviceType { expected: DeviceType::VULKAN, .. }));
}

#[test]
fn wgpu_errors_are_returned() {
    let Some(gpu) = gpu() else { return };
    let tensor = to_device(&[1.0_f32], &gpu.device).unwrap();
    let other = gpu.other(Limits::default());
    let refusal = export(&tensor, &other).unwrap_err();
    assert!(matches!(refusal, Error::OtherDevice), "{refusal}");
    let unknown = tensor.to_buffer().unwrap().into_tensor::<f32>([1]).unwrap();
    let refusal = export(&unknown, &other).unwrap_err();
    assert!(matches!(refusal, Error::Wgpu(wgpu::Error::Validation { .. })), "{refusal}");
    // SAFETY: the call fails, and returns no tensor.
    let refusal = unsafe { tensor.to_vulkan(&gpu.device, &other.queue) }.unwrap_err();
    assert!(matches!(refusal, Error::OtherDevice), "{refusal}");
    let nothing = tensor.slice(0, 0..0).unwrap();
    assert!(matches!(export(&nothing, &gpu), Err(Error::Empty)));
}

#[test]
fn destroyed_buffer_has_no_handle() {
    let Some(gpu) = gpu() else { return };
    let tensor = to_device(&[1.0_f32], &gpu.device).unwrap();
    tensor.to_buffer().unwrap().destroy();
    assert!(matches!(export(&tensor, &gpu), Err(Error::Destroyed)));
}

#[test]
fn export_waits_for_submissions() {
    let Some(gpu) = gpu() else { return };
    // Large, so that the copy takes a while.
    let elements = vec![1.0_f32; 1 << 22];
    let memory = Arc::new(Vulkan::of(&gpu).memory(&elements));
    let tensor = import(produced_over(&gpu, &memory).0, &gpu, 1 << 24).unwrap();
    let buffer = tensor.to_buffer().unwrap();
    count(&gpu, &buffer);
    let numbers: Vec<u8> = elements[1..].iter().flat_map(|_| 7.0_f32.to_ne_bytes()).collect();
    gpu.queue.write_buffer(&buffer, 4, &numbers);
    let _out = export(&tensor, &gpu).unwrap();
    let seen = memory.read();
    assert_eq!((seen[0], seen[1]), (201.0, 7.0));
    assert_eq!(seen.last(), Some(&7.0));
}

#[test]
fn foreign_tensor_is_checked_against_the_buffer() {
    let Some(gpu) = gpu() else { return };
    let tensor = to_device(&[1.0_f32], &gpu.device).unwrap();
    let parts =
        RawParts { device: tensor.device(), ..RawParts::new(tensor.data(), DataType::FLOAT32) };
    // SAFETY: nothing reads past the end of the buffer: the import must refuse it, which is the test.
    let tensor = unsafe { Tensor::from_raw_parts(tensor, parts, &[2], None::<&[i64]>) }.unwrap();
    let refusal = export(&tensor, &gpu).unwrap_err();
    assert!(matches!(refusal, Error::TooSmall { first: 0, end: 8, size: 4 }), "{refusal}");
}

#[test]
fn subbyte_elements_keep_a_byte_each() {
    let Some(gpu) = gpu() else { return };
    let host = Tensor::from_padded_bytes(vec![1_u8, 2, 3, 4], DataType::UINT4, [4], 0).unwrap();
    let tensor = to_device(&host, &gpu.device).unwrap();
    assert_eq!((tensor.is_subbyte_padded(), tensor.nbytes()), (true, 4));
    let out = export(&tensor, &gpu).unwrap();
    assert_eq!((out.is_subbyte_padded(), out.nbytes()), (true, 4));
    let tensor = import(out, &gpu, 4).unwrap();
    assert_eq!((tensor.is_subbyte_padded(), tensor.nbytes()), (true, 4));
}

#[test]
fn device_of_another_backend_has_no_handles() {
    let Some(gpu) = gpu() else { return };
    let other = Gpu::noop();
    let tensor = to_device(&[1.0_f32], &other.device).unwrap();
    assert_eq!(other.host(&tensor), [1.0]);
    assert!(matches!(export(&tensor, &other), Err(Error::NotVulkan)));
    assert!(matches!(export(&tensor, &gpu), Err(Error::OtherDevice)));
    let unknown = tensor.to_buffer().unwrap().into_tensor::<f32>([1]).unwrap();
    assert!(matches!(export(&unknown, &gpu), Err(Error::Destroyed)));
    let (tensor, seen) = produced(&gpu, &[1.0]);
    assert!(matches!(import(tensor, &other, 4), Err(Error::NotVulkan)));
    assert_eq!(seen.lock().unwrap().len(), 1);
    let tensor = to_device(&[1.0_f32], &gpu.device).unwrap();
    let mixed = tensor.to_host(&gpu.device, &other.queue);
    assert!(matches!(mixed, Err(Error::OtherDevice)));
}
