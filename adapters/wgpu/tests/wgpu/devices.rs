//! Devices that are not the tensor's, or were destroyed.

use dlbridge_wgpu::{BufferExt, Error, TensorExt, to_device};

use crate::gpu::{Gpu, gpu};

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
