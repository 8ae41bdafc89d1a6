//! Buffers that become tensors, tensors that become buffers, and devices that are not the tensor's, or were destroyed.

use std::{ptr, thread};

use dlbridge::{Access, DataType, Device as TensorDevice, DeviceType, RawParts, Tensor};
use dlbridge_testing::{
    Narrow, assert_bytes, assert_slices, consume, for_each_dtype, for_each_shape, numbers,
    through_c, through_legacy_c,
};
use dlbridge_wgpu::{BufferExt, Error, TENSOR_USAGES, TensorExt, to_device};
use wgpu::{BufferUsages, Limits};

use crate::gpu::{Gpu, gpu};

#[test]
fn buffer_and_tensor_convert_both_ways() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.filled(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let tensor = buffer.clone().into_tensor::<f32>([2, 3]).unwrap();
    assert_eq!((tensor.shape(), tensor.strides()), (&[2, 3][..], &[3, 1][..]));
    assert_eq!((tensor.dtype(), tensor.byte_offset()), (DataType::FLOAT32, 0));
    assert_eq!(tensor.device(), TensorDevice::new(DeviceType::WEB_GPU, 0));
    assert_eq!(tensor.access(), Access::Shared);
    assert!(!tensor.data().is_null());
    assert!(tensor.view::<f32>().is_err(), "the CPU cannot read it");
    assert_eq!(tensor.to_buffer().unwrap(), buffer);
    assert_eq!(gpu.host(&tensor), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let second = buffer.clone().into_tensor::<f32>([6]).unwrap();
    assert_ne!(second.data(), tensor.data(), "each owner has its own address");
    assert_eq!(second.to_buffer().unwrap(), buffer);
}

#[test]
fn buffer_is_found_after_any_path() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.filled(&[1.0, 2.0, 3.0, 4.0]);
    let tensor = buffer.clone().into_tensor::<f32>([4]).unwrap();
    let address = tensor.data();
    let tensor = through_c(tensor);
    assert_eq!((tensor.data(), tensor.to_buffer().unwrap()), (address, buffer.clone()));
    let tensor = through_legacy_c(tensor).into_shared();
    // SAFETY: the pointer is a managed tensor that was just exported, and is imported once.
    let lent = unsafe { Tensor::from_raw(tensor.to_raw()) }.unwrap();
    assert_eq!(lent.to_buffer().unwrap(), buffer);
    let part = tensor.share().slice(0, 1..3).unwrap();
    drop((tensor, lent));
    assert_eq!(part.to_buffer_for_reading().unwrap(), buffer);
    // Another library makes its own managed tensor, which keeps this one.
    let parts = RawParts {
        device: part.device(),
        byte_offset: 4,
        ..RawParts::new(part.data(), DataType::FLOAT32)
    };
    // SAFETY: the owner keeps the tensor and its buffer.
    let again = unsafe { Tensor::from_raw_parts(part, parts, &[2], None::<&[i64]>) }.unwrap();
    assert_eq!((again.to_buffer().unwrap(), gpu.host(&again)), (buffer, vec![2.0, 3.0]));
}

#[test]
fn tensor_of_another_library_is_refused() {
    let Some(gpu) = gpu() else { return };
    let device = TensorDevice::new(DeviceType::WEB_GPU, 0);
    let mut handle = Box::new(0_u64);
    let data = ptr::from_mut(&mut *handle).cast();
    let parts = RawParts { device, ..RawParts::new(data, DataType::FLOAT32) };
    // SAFETY: nothing dereferences the address, which is the test.
    let tensor = unsafe { Tensor::from_raw_parts(handle, parts, &[2], None::<&[i64]>) }.unwrap();
    let refusal = tensor.to_buffer().unwrap_err();
    assert!(matches!(refusal, Error::Foreign), "{refusal}");
    assert!(refusal.to_string().contains("WGPUBuffer"), "{refusal}");
    assert!(matches!(tensor.to_buffer_for_reading(), Err(Error::Foreign)));
    assert!(matches!(tensor.binding(&gpu.device), Err(Error::Foreign)));
    assert!(matches!(tensor.to_host(&gpu.device, &gpu.queue), Err(Error::Foreign)));
}

#[test]
fn buffer_of_dropped_owner_is_not_found() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.filled(&[1.0, 2.0]);
    let ours = buffer.clone().into_tensor::<f32>([2]).unwrap();
    let parts = RawParts { device: ours.device(), ..RawParts::new(ours.data(), DataType::FLOAT32) };
    // SAFETY: nothing dereferences the address, which is the test.
    let stale = unsafe { Tensor::from_raw_parts((), parts, &[2], None::<&[i64]>) }.unwrap();
    assert_eq!(stale.to_buffer().unwrap(), buffer);
    drop(ours);
    // The next owner, in another test, may have the same address.
    let found = stale.to_buffer();
    assert_ne!(found.ok(), Some(buffer));
}

#[test]
fn slices_are_the_parent_and_a_byte_offset() {
    let Some(gpu) = gpu() else { return };
    assert_slices(
        |host| to_device(host, &gpu.device).unwrap(),
        |tensor| tensor.to_host(&gpu.device, &gpu.queue).unwrap(),
    );
}

#[test]
fn every_dtype_round_trips_at_any_byte() {
    let Some(gpu) = gpu() else { return };
    for_each_dtype(|dtype, bytes| {
        for offset in [0, 1, 3, 6] {
            let mut all = vec![0xff; 72];
            all[offset..offset + bytes.len()].copy_from_slice(bytes);
            let buffer = to_device(&Tensor::from(all), &gpu.device).unwrap().to_buffer().unwrap();
            let tensor = buffer.into_tensor_of(dtype, offset as u64, [3]).unwrap();
            assert_eq!((tensor.dtype(), tensor.byte_offset()), (dtype, offset as u64));
            let host = tensor.to_host(&gpu.device, &gpu.queue).unwrap();
            assert_bytes(&host, dtype, bytes);
            let back = to_device(&host, &gpu.device).unwrap();
            assert_bytes(&back.to_host(&gpu.device, &gpu.queue).unwrap(), dtype, bytes);
        }
    });
}

#[test]
fn copy_of_empty_scalar_and_strided_keeps_the_elements() {
    let Some(gpu) = gpu() else { return };
    for_each_shape(|host| {
        let device = to_device(host, &gpu.device).unwrap();
        assert_eq!((device.shape(), device.dtype()), (host.shape(), host.dtype()));
        assert_eq!(device.device().device_type(), DeviceType::WEB_GPU);
        assert_eq!(gpu.host(&device), numbers(host));
    });
    let flags = to_device(&[true, false, true], &gpu.device).unwrap();
    assert_eq!(flags.to_buffer().unwrap().size(), 4, "padded to a multiple of 4");
    let flags = flags.flip(0).unwrap().slice(0, 0..2).unwrap();
    let flags = flags.to_host(&gpu.device, &gpu.queue).unwrap();
    assert_eq!(flags.view::<bool>().unwrap().to_vec(), [true, false]);
    let empty = gpu.filled(&[]).into_tensor::<f32>([0]).unwrap();
    assert!(matches!(empty.to_buffer(), Err(Error::Empty)));
    assert!(matches!(empty.binding(&gpu.device), Err(Error::Empty)));
    assert_eq!(empty.to_host(&gpu.device, &gpu.queue).unwrap().shape(), [0]);
}

#[test]
fn unwritten_memory_is_zero() {
    let Some(gpu) = gpu() else { return };
    let tensor = gpu.buffer(16, TENSOR_USAGES).into_tensor::<f32>([4]).unwrap();
    assert_eq!(gpu.host(&tensor), [0.0; 4]);
}

#[test]
fn unsuitable_buffer_is_refused() {
    let Some(gpu) = gpu() else { return };
    let short = gpu.filled(&[0.0; 4]).into_tensor_of(DataType::FLOAT32, 8, [3]);
    assert!(matches!(short, Err(Error::TooSmall { first: 8, end: 20, size: 16 })));
    let far = gpu.filled(&[0.0; 4]).into_tensor_of(DataType::FLOAT32, 1 << 62, [1]);
    assert!(matches!(far, Err(Error::TooSmall { .. })));
    assert!(gpu.filled(&[0.0; 4]).into_tensor::<f32>([usize::MAX, 2]).is_err());
    let uneven = gpu.buffer(10, TENSOR_USAGES).into_tensor::<u8>([10]).unwrap_err();
    assert!(matches!(uneven, Error::UnevenSize { size: 10 }), "{uneven}");
    assert!(uneven.to_string().ends_with("create it with 12"), "{uneven}");
    let usage = BufferUsages::STORAGE | BufferUsages::VERTEX;
    let refusal = gpu.buffer(16, usage).into_tensor::<f32>([4]).unwrap_err();
    let missing = BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
    assert!(matches!(&refusal, Error::Usages { missing: m } if *m == missing), "{refusal}");
    assert!(gpu.buffer(16, TENSOR_USAGES | usage).into_tensor::<f32>([4]).is_ok());
}

#[test]
fn tensor_elsewhere_is_refused() {
    let Some(gpu) = gpu() else { return };
    let host = Tensor::from(vec![1.0_f32]);
    assert!(matches!(host.to_buffer(), Err(Error::NotWebGpu { device: TensorDevice::CPU })));
    assert!(matches!(host.to_buffer_for_reading(), Err(Error::NotWebGpu { .. })));
    assert!(matches!(host.binding(&gpu.device), Err(Error::NotWebGpu { .. })));
    assert!(matches!(host.to_host(&gpu.device, &gpu.queue), Err(Error::NotWebGpu { .. })));
    let nothing = Tensor::zeroed(DataType::FLOAT32, [0]).unwrap();
    assert!(matches!(nothing.to_host(&gpu.device, &gpu.queue), Err(Error::NotWebGpu { .. })));
    let tensor = to_device(&host, &gpu.device).unwrap();
    assert!(to_device(&tensor, &gpu.device).is_err(), "it is not host memory");
}

#[test]
fn wgpu_errors_are_returned() {
    let Some(gpu) = gpu() else { return };
    let tensor = gpu.filled(&[1.0, 2.0]).into_tensor::<f32>([2]).unwrap();
    let small = gpu.other(Limits { max_buffer_size: 1024, ..Limits::default() });
    let mixed = tensor.to_host(&gpu.device, &small.queue).unwrap_err();
    assert!(matches!(mixed, Error::OtherDevice), "{mixed}");
    // Only wgpu knows the device of a buffer that the program made.
    let other = tensor.to_host(&small.device, &small.queue).unwrap_err();
    assert!(matches!(other, Error::Wgpu(wgpu::Error::Validation { .. })), "{other}");
    let large = to_device(&[0.0_f32; 257], &small.device).unwrap_err();
    assert!(matches!(large, Error::Wgpu(wgpu::Error::Validation { .. })), "{large}");
    assert_eq!(gpu.host(&tensor), [1.0, 2.0], "the device still works");
    assert_eq!(small.host(&to_device(&[3.0_f32], &small.device).unwrap()), [3.0]);
    tensor.to_buffer().unwrap().destroy();
    let destroyed = tensor.to_host(&gpu.device, &gpu.queue).unwrap_err();
    assert!(matches!(destroyed, Error::Wgpu(wgpu::Error::Validation { .. })), "{destroyed}");
}

#[test]
fn foreign_tensor_is_checked_against_the_buffer() {
    let Some(gpu) = gpu() else { return };
    let tensor = gpu.filled(&[0.0; 4]).into_tensor::<f32>([4]).unwrap();
    let parts =
        RawParts { device: tensor.device(), ..RawParts::new(tensor.data(), DataType::FLOAT32) };
    // SAFETY: nothing reads past the end of the buffer: the copy must refuse it, which is the test.
    let tensor = unsafe { Tensor::from_raw_parts(tensor, parts, &[5], None::<&[i64]>) }.unwrap();
    let expected = |error| matches!(error, Error::TooSmall { first: 0, end: 20, size: 16 });
    assert!(expected(tensor.to_buffer().unwrap_err()));
    assert!(expected(tensor.binding(&gpu.device).unwrap_err()));
    assert!(expected(tensor.to_host(&gpu.device, &gpu.queue).unwrap_err()));
}

#[test]
fn read_only_tensor_is_not_exported_as_writable() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.filled(&[1.0; 4]);
    let tensor = buffer.clone().into_tensor::<f32>([4]).unwrap().into_read_only();
    let refusal = tensor.to_buffer().unwrap_err();
    assert!(matches!(refusal, Error::Tensor(dlbridge::Error::ReadOnly)), "{refusal}");
    assert_eq!(tensor.to_buffer_for_reading().unwrap(), buffer);
    assert!(tensor.into_raw_legacy().is_err(), "the legacy struct cannot express read-only");
}

#[test]
fn tensor_is_dropped_on_any_thread() {
    let Some(gpu) = gpu() else { return };
    let tensors: Vec<Tensor> =
        (0..64).map(|i| to_device(&[i as f32], &gpu.device).unwrap()).collect();
    let threads = tensors.into_iter().enumerate().map(|(i, tensor)| {
        let (device, queue) = (gpu.device.clone(), gpu.queue.clone());
        thread::spawn(move || {
            assert_eq!(numbers(&tensor.to_host(&device, &queue).unwrap()), [i as f32]);
            consume(tensor);
        })
    });
    let threads: Vec<_> = threads.collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn typed_subbyte_elements_take_a_byte_each() {
    let Some(gpu) = gpu() else { return };
    let make = || gpu.buffer(4, TENSOR_USAGES);
    let tensor = make().into_tensor::<Narrow>([4]).unwrap();
    assert_eq!((tensor.is_subbyte_padded(), tensor.nbytes()), (true, 4));
    let host = tensor.to_host(&gpu.device, &gpu.queue).unwrap();
    assert!(host.is_subbyte_padded());
    let copy = to_device(&host, &gpu.device).unwrap();
    assert_eq!((copy.is_subbyte_padded(), copy.nbytes()), (true, 4));
    let nothing = tensor.slice(0, 0..0).unwrap();
    assert!(nothing.to_host(&gpu.device, &gpu.queue).unwrap().is_subbyte_padded());
    assert!(matches!(make().into_tensor::<Narrow>([8]), Err(Error::TooSmall { .. })));
    let packed = make().into_tensor_of(DataType::FLOAT4_E2M1FN, 0, [8]).unwrap();
    assert_eq!((packed.is_subbyte_padded(), packed.nbytes()), (false, 4));
}

#[test]
fn device_of_another_instance_is_refused() {
    let (Some(one), Some(other)) = (gpu(), gpu()) else { return };
    // Both tensors use the first buffer of the first device of an instance, and wgpu compares only these numbers.
    let mine = to_device(&[41.0_f32, 42.0], &one.device).unwrap();
    let tensor = to_device(&[1.0_f32, 2.0], &other.device).unwrap();
    let refusal = tensor.to_host(&one.device, &one.queue).unwrap_err();
    assert!(matches!(refusal, Error::OtherDevice), "{refusal}");
    assert!(matches!(mine.to_host(&other.device, &other.queue), Err(Error::OtherDevice)));
    assert_eq!((one.host(&mine), other.host(&tensor)), (vec![41.0, 42.0], vec![1.0, 2.0]));
    let again = one.device.clone();
    assert!(mine.to_host(&again, &one.queue).is_ok());
}

#[test]
fn device_of_another_backend_is_refused() {
    let Some(gpu) = gpu() else { return };
    let other = Gpu::noop();
    let tensor = to_device(&[1.0_f32], &other.device).unwrap();
    assert_eq!(other.host(&tensor), [1.0]);
    assert!(matches!(tensor.to_host(&gpu.device, &gpu.queue), Err(Error::OtherDevice)));
    let tensor = to_device(&[1.0_f32], &gpu.device).unwrap();
    assert!(matches!(tensor.to_host(&other.device, &other.queue), Err(Error::OtherDevice)));
    assert!(matches!(tensor.to_host(&gpu.device, &other.queue), Err(Error::OtherDevice)));
}

#[test]
fn destroyed_device_is_lost() {
    let Some(gpu) = gpu() else { return };
    let tensors = [
        to_device(&[1.0_f32], &gpu.device).unwrap(),
        gpu.filled(&[1.0]).into_tensor::<f32>([1]).unwrap(),
    ];
    gpu.device.destroy();
    for tensor in tensors {
        let refusal = tensor.to_host(&gpu.device, &gpu.queue).unwrap_err();
        assert!(matches!(refusal, Error::Lost), "{refusal}");
    }
    let refusal = to_device(&[1.0_f32], &gpu.device).unwrap_err();
    assert!(matches!(refusal, Error::Lost), "{refusal}");
}

#[test]
fn mapped_buffer_is_reported() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: 4,
        usage: dlbridge_wgpu::TENSOR_USAGES,
        mapped_at_creation: true,
    });
    let tensor = buffer.clone().into_tensor::<f32>([1]).unwrap();
    let refusal = tensor.to_host(&gpu.device, &gpu.queue).unwrap_err();
    assert!(matches!(refusal, Error::Wgpu(wgpu::Error::Validation { .. })), "{refusal}");
    buffer.unmap();
    assert_eq!(gpu.host(&tensor), [0.0]);
}
