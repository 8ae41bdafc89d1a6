//! Devices that are not the tensor's, or were destroyed.

use dlbridge::Tensor;
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
}

/// Two tensors of a device that is then destroyed: one from this crate, and one over the program's own buffer.
fn destroyed(gpu: &Gpu) -> [Tensor; 2] {
    let tensors = [
        to_device(&[1.0_f32], &gpu.device).unwrap(),
        gpu.filled(&[1.0]).into_tensor::<f32>([1]).unwrap(),
    ];
    gpu.device.destroy();
    tensors
}

#[test]
fn destroyed_device_is_lost() {
    let Some(gpu) = gpu() else { return };
    for tensor in destroyed(&gpu) {
        let refusal = tensor.to_host(&gpu.device, &gpu.queue).unwrap_err();
        assert!(matches!(refusal, Error::Lost), "{refusal}");
    }
    let refusal = to_device(&[1.0_f32], &gpu.device).unwrap_err();
    assert!(matches!(refusal, Error::Lost), "{refusal}");
}

#[test]
#[cfg(all(target_pointer_width = "64", target_os = "linux"))]
fn destroyed_device_exports_nothing() {
    let Some(gpu) = gpu() else { return };
    for tensor in destroyed(&gpu) {
        let refusal = crate::vulkan::export(&tensor, &gpu).unwrap_err();
        // `Destroyed` if wgpu has noticed it already.
        assert!(matches!(refusal, Error::Lost | Error::Destroyed), "{refusal}");
    }
}

#[test]
#[cfg(all(target_pointer_width = "64", target_os = "linux"))]
fn handle_of_another_instance_is_refused() {
    let (Some(one), Some(other)) = (gpu(), gpu()) else { return };
    let _mine = to_device(&[1.0_f32], &one.device).unwrap();
    let tensor = to_device(&[1.0_f32], &other.device).unwrap();
    assert!(matches!(crate::vulkan::export(&tensor, &one), Err(Error::OtherDevice)));
    assert!(crate::vulkan::export(&tensor, &other).is_ok());
    let (adopted, _seen) = crate::vulkan::produced(&other, &[1.0]);
    let adopted = crate::vulkan::import(adopted, &other, 4).unwrap();
    assert!(matches!(adopted.to_host(&one.device, &one.queue), Err(Error::OtherDevice)));
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
