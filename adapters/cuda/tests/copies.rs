//! Copies between the host and devices, and between devices, on a stand-in for the driver: no GPU.

mod common;

use common::cuda;
use dlbridge::{Access, Device, DeviceType, Tensor};
use dlbridge_cuda::{Error, SliceExt, TensorExt, to_device};
use dlbridge_testing::{SLICES, assert_bytes, for_each_dtype, for_each_shape, numbers, sliced};

#[test]
fn copy_of_every_dtype_round_trips() {
    let Some(cuda) = cuda() else { return };
    let stream = cuda.context(0).new_stream().unwrap();
    for_each_dtype(|dtype, packed| {
        for padded in [false, true] {
            if padded && !dtype.is_subbyte() {
                continue;
            }
            let bytes = if padded { &[1, 2, 3] } else { packed };
            let host = match padded {
                true => Tensor::from_padded_bytes(bytes.to_vec(), dtype, [3], 0),
                false => Tensor::from_bytes(bytes.to_vec(), dtype, [3], 0),
            };
            let tensor = to_device(&host.unwrap(), &stream).unwrap();
            assert_eq!(tensor.device(), Device::new(DeviceType::CUDA, 0));
            assert_eq!((tensor.dtype(), tensor.is_subbyte_padded()), (dtype, padded));
            assert_eq!(tensor.access(), Access::Exclusive);
            let host = tensor.to_host(&stream).unwrap();
            assert_eq!(host.is_subbyte_padded(), padded, "{dtype}");
            assert_bytes(&host, dtype, bytes);
        }
    });
}

#[test]
fn copy_of_large_tensor_alternates_two_buffers() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    for stream in [context.default_stream(), context.new_stream().unwrap()] {
        // Sizes around those of the buffers, in elements of four bytes.
        for len in [1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20, (5 << 20) + 7] {
            let values: Vec<f32> = (0..len).map(|i| i as f32).collect();
            let tensor = to_device(&values, &stream).unwrap();
            let host = tensor.to_host(&stream).unwrap();
            assert!(host.view::<f32>().unwrap().as_slice() == Some(&values[..]), "{len}");
        }
    }
}

#[test]
fn copy_of_empty_scalar_and_strided_keeps_the_elements() {
    let Some(cuda) = cuda() else { return };
    let stream = cuda.context(1).new_stream().unwrap();
    for_each_shape(|host| {
        let device = to_device(host, &stream).unwrap();
        assert_eq!((device.shape(), device.dtype()), (host.shape(), host.dtype()));
        assert_eq!(device.device(), Device::new(DeviceType::CUDA, 1));
        assert!(device.is_c_contiguous());
        assert_eq!(numbers(&device.to_host(&stream).unwrap()), numbers(host));
        let again = device.copy_to(&stream).unwrap();
        assert_eq!(numbers(&again.to_host(&stream).unwrap()), numbers(host));
    });
    let tensor = to_device(&[1.0_f32], &stream).unwrap();
    assert!(to_device(&tensor, &stream).is_err(), "it is not host memory");
}

#[test]
fn copy_of_slice_keeps_the_layout() {
    let Some(cuda) = cuda() else { return };
    let (stream, other) =
        (cuda.context(0).new_stream().unwrap(), cuda.context(1).new_stream().unwrap());
    for (name, slice, _) in SLICES {
        let host = slice(sliced()).unwrap();
        let device = slice(to_device(&sliced(), &stream).unwrap()).unwrap();
        let fetched = device.to_host(&stream).unwrap();
        assert!(fetched.is_c_contiguous());
        assert_eq!((fetched.shape(), numbers(&fetched)), (host.shape(), numbers(&host)), "{name}");
        let moved = device.copy_to(&other).unwrap();
        assert_eq!((moved.shape(), moved.strides()), (device.shape(), device.strides()), "{name}");
        assert_eq!(moved.device(), Device::new(DeviceType::CUDA, 1));
        assert_eq!(numbers(&moved.to_host(&other).unwrap()), numbers(&host), "{name}");
    }
}

#[test]
fn copy_to_other_device_is_ordered_on_both() {
    let Some(cuda) = cuda() else { return };
    let (here, there) = (cuda.context(0), cuda.context(1));
    let (mine, yours) = (here.new_stream().unwrap(), there.new_stream().unwrap());
    let tensor = cuda.slice(&mine, &[1.0_f32, 2.0, 3.0]).into_tensor([3]).unwrap();
    let waits = cuda.host_waits();
    let copy = tensor.copy_to(&yours).unwrap();
    assert_eq!(cuda.host_waits(), waits, "the host does not wait");
    // The source is dropped, and overwritten, before anything has waited for the copy.
    cuda.kernel(&here.default_stream(), tensor.data().addr() as u64, &[0; 12]);
    drop(tensor);
    mine.synchronize().unwrap();
    assert_eq!(cuda.faults(), 0);
    let third = there.new_stream().unwrap();
    assert_eq!(numbers(&copy.to_host(&third).unwrap()), [1.0, 2.0, 3.0]);
    assert!(matches!(copy.to_host(&mine), Err(Error::OtherDevice { ordinal: 0, .. })));
    assert!(matches!(Tensor::from(vec![1_u8]).copy_to(&mine), Err(Error::NotCuda { .. })));
}

#[test]
fn copy_waits_for_producer_and_consumers_wait_for_copy() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, copying) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    for other in [context, cuda.context(1)] {
        let (yours, theirs) = (other.new_stream().unwrap(), other.new_stream().unwrap());
        let yours = if other.ordinal() == 0 { &copying } else { &yours };
        let tensor = cuda.slice(&mine, &[1.0_f32, 2.0]).into_tensor([2]).unwrap();
        let copy = tensor.copy_to(yours).unwrap();
        let fetched = copy.into_cuda::<f32>(&theirs).unwrap();
        assert_eq!(common::fetched(&theirs, &fetched.view()), [1.0, 2.0]);
    }
}

#[test]
fn context_of_missing_device_returns_the_drivers_error() {
    let Some(cuda) = cuda() else { return };
    let refusal = dlbridge_cuda::context(2).unwrap_err();
    assert_eq!(refusal.to_string(), "the CUDA driver: CUDA_ERROR_INVALID_DEVICE (code 101)");
    drop(cuda);
}
