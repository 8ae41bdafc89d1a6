//! Host tensors copied to a real Vulkan device and back: lavapipe in CI.

#[path = "support/fill.rs"]
mod fill;
mod support;

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use ash::vk::Handle;
use dlbridge::{Access, DataType, Device as TensorDevice, DeviceType, RawParts, Tensor, TensorRef};
use dlbridge_testing::{
    Narrow, assert_bytes, assert_slices, for_each_dtype, for_each_shape, numbers, through_c,
    through_legacy_c,
};
use dlbridge_vulkan::{Error, TensorExt, to_device};
use fill::fill;
use support::device;

#[test]
fn to_device_makes_a_buffer() {
    let Some(device) = device() else { return };
    let tensor = to_device(&[[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]], &device).unwrap();
    assert_eq!((tensor.shape(), tensor.strides()), (&[2, 3][..], &[3, 1][..]));
    assert_eq!((tensor.dtype(), tensor.byte_offset()), (DataType::FLOAT32, 0));
    assert_eq!(tensor.device(), TensorDevice::new(DeviceType::VULKAN, 0));
    assert_eq!((tensor.device().to_string(), tensor.access()), ("vulkan:0".into(), Access::Shared));
    assert!(tensor.view::<f32>().is_err(), "the CPU cannot read it");
    let buffer = tensor.to_buffer().unwrap();
    assert_eq!(buffer.handle().as_raw(), tensor.data().addr() as u64);
    assert_eq!(buffer.bytes(), 0..24);
    let host = tensor.to_host(&device).unwrap();
    assert_eq!((host.shape(), host.access()), (&[2, 3][..], Access::Exclusive));
    assert_eq!(numbers(&host), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn slices_are_the_parent_and_a_byte_offset() {
    let Some(device) = device() else { return };
    assert_slices(
        |host| to_device(host, &device).unwrap(),
        |tensor| tensor.to_host(&device).unwrap(),
    );
}

#[test]
fn bytes_are_from_the_lowest_to_the_highest() {
    let Some(device) = device() else { return };
    let tensor = to_device(&[[1_u16, 2, 3], [4, 5, 6]], &device).unwrap();
    let part = tensor.slice(1, 1..).unwrap().flip(0).unwrap().flip(1).unwrap();
    assert_eq!((part.byte_offset(), part.to_buffer().unwrap().bytes()), (10, 2..12));
    assert_eq!(part.to_host(&device).unwrap().view::<u16>().unwrap().to_vec(), [6, 5, 3, 2]);
}

#[test]
fn every_dtype_round_trips() {
    let Some(device) = device() else { return };
    for_each_dtype(|dtype, bytes| {
        let host = Tensor::from_bytes(bytes.to_vec(), dtype, [3], 0).unwrap();
        let tensor = to_device(&host, &device).unwrap();
        assert_eq!((tensor.dtype(), tensor.shape()), (dtype, &[3][..]));
        assert_bytes(&tensor.to_host(&device).unwrap(), dtype, bytes);
    });
}

#[test]
fn subbyte_elements_stay_padded() {
    let Some(device) = device() else { return };
    let tensor = to_device(&[Narrow(1), Narrow(2), Narrow(3)], &device).unwrap();
    assert_eq!((tensor.is_subbyte_padded(), tensor.nbytes()), (true, 3));
    let host = tensor.slice(0, 1..).unwrap().to_host(&device).unwrap();
    assert!(host.is_subbyte_padded());
    assert_eq!(TensorRef::from(&host).as_bytes().unwrap(), [2, 3]);
    let empty = to_device(&[Narrow(0); 0], &device).unwrap().to_host(&device).unwrap();
    assert_eq!((empty.shape(), empty.is_subbyte_padded()), (&[0][..], true));
}

#[test]
fn copy_of_empty_scalar_and_strided_keeps_the_elements() {
    let Some(device) = device() else { return };
    let to_and_fro = |host: &Tensor| {
        let tensor = to_device(host, &device).unwrap();
        assert_eq!((tensor.shape(), tensor.dtype()), (host.shape(), host.dtype()));
        assert_eq!(tensor.device().device_type(), DeviceType::VULKAN);
        assert_eq!(numbers(&tensor.to_host(&device).unwrap()), numbers(host));
    };
    for_each_shape(to_and_fro);
    to_and_fro(&Tensor::from((0..1_000_003).map(|i| i as f32).collect::<Vec<_>>()));
    let empty = to_device(&[0.0_f32; 0], &device).unwrap();
    assert!(matches!(empty.to_buffer(), Err(Error::Empty)));
    assert!(matches!(empty.to_read_only_buffer(), Err(Error::Empty)));
}

#[test]
fn to_host_recognises_a_tensor_after_any_path() {
    let Some(device) = device() else { return };
    let tensor = to_device(&[1.0_f32, 2.0, 3.0], &device).unwrap();
    let read = |tensor: &Tensor| numbers(&tensor.to_host(&device).unwrap());
    let tensor = through_c(tensor);
    assert_eq!(read(&tensor), [1.0, 2.0, 3.0]);
    let tensor = through_legacy_c(tensor).into_shared();
    assert_eq!(read(&tensor), [1.0, 2.0, 3.0]);
    let shared = tensor.share();
    // SAFETY: the pointer is a managed tensor that was just exported, and is imported once.
    let lent = unsafe { Tensor::from_raw(tensor.to_raw()) }.unwrap().slice(0, 1..).unwrap();
    // Like a foreign library: another managed tensor, over the same handle.
    let parts = RawParts {
        device: tensor.device(),
        byte_offset: 8,
        ..RawParts::new(tensor.data(), DataType::FLOAT32)
    };
    // SAFETY: the owner keeps the buffer, which has the element at byte 8.
    let foreign = unsafe { Tensor::from_raw_parts(tensor, parts, &[1], None::<&[i64]>) }.unwrap();
    assert_eq!((read(&lent), read(&shared)), (vec![2.0, 3.0], vec![1.0, 2.0, 3.0]));
    drop((lent, shared));
    assert_eq!(read(&foreign), [3.0]);
}

#[test]
fn foreign_tensor_is_checked_against_the_buffer() {
    let Some(device) = device() else { return };
    let tensor = to_device(&[0.0_f32; 4], &device).unwrap();
    let parts = RawParts {
        device: tensor.device(),
        byte_offset: 4,
        ..RawParts::new(tensor.data(), DataType::FLOAT32)
    };
    // SAFETY: nothing reads past the end of the buffer: the copy must refuse it, which is the test.
    let tensor = unsafe { Tensor::from_raw_parts(tensor, parts, &[4], None::<&[i64]>) }.unwrap();
    let refusal = tensor.to_host(&device).unwrap_err();
    assert!(matches!(refusal, Error::TooSmall { first: 4, end: 20, size: 16 }), "{refusal}");
}

#[test]
fn buffer_size_is_rounded_up_to_whole_words() {
    let Some(device) = device() else { return };
    let bytes = |count: usize| {
        let tensor = to_device(&[7_u8], &device).unwrap();
        let parts =
            RawParts { device: tensor.device(), ..RawParts::new(tensor.data(), DataType::UINT8) };
        // SAFETY: the owner keeps the buffer, and elements past its end are refused.
        let tensor = unsafe { Tensor::from_raw_parts(tensor, parts, &[count], None::<&[i64]>) };
        tensor.unwrap().to_host(&device)
    };
    assert_eq!(bytes(4).unwrap().view::<u8>().unwrap().to_vec(), [7, 0, 0, 0]);
    assert!(matches!(bytes(5), Err(Error::TooSmall { first: 0, end: 5, size: 4 })));
}

#[test]
fn tensor_elsewhere_is_refused() {
    let Some(device) = device() else { return };
    let host = Tensor::from(vec![1.0_f32]);
    assert!(matches!(host.to_buffer(), Err(Error::NotVulkan { .. })));
    assert!(matches!(host.to_read_only_buffer(), Err(Error::NotVulkan { .. })));
    assert!(matches!(host.to_host(&device), Err(Error::NotVulkan { .. })));
    // SAFETY: the call refuses the tensor and does not read it.
    assert!(matches!(unsafe { host.to_host_unchecked(&device) }, Err(Error::NotVulkan { .. })));
    let nothing = Tensor::from(Vec::<f32>::new());
    assert!(matches!(nothing.to_host(&device), Err(Error::NotVulkan { .. })));
    let tensor = to_device(&host, &device).unwrap();
    assert!(to_device(&tensor, &device).is_err(), "it is not host memory");
    let other = RawParts {
        device: TensorDevice::new(DeviceType::VULKAN, 7),
        ..RawParts::new(tensor.data(), DataType::FLOAT32)
    };
    // SAFETY: the owner keeps the buffer.
    let other = unsafe { Tensor::from_raw_parts(tensor, other, &[1], None::<&[i64]>) }.unwrap();
    assert!(matches!(other.to_host(&device), Err(Error::OtherDevice)));
}

#[test]
fn buffer_of_another_device_is_refused() {
    let (Some(first), Some(second)) = (device(), device()) else { return };
    assert_ne!(first.ash().handle(), second.ash().handle());
    let tensors = [&first, &second].map(|device| to_device(&[1.0_f32], device).unwrap());
    assert_eq!(numbers(&tensors[0].to_host(&first).unwrap()), [1.0]);
    assert_eq!(numbers(&tensors[1].to_host(&second).unwrap()), [1.0]);
    assert!(matches!(tensors[0].to_host(&second), Err(Error::OtherDevice)));
    assert!(matches!(tensors[1].to_host(&first), Err(Error::OtherDevice)));
    let again = first.clone();
    assert_eq!(numbers(&tensors[0].to_host(&again).unwrap()), [1.0]);
}

#[test]
fn read_only_tensor_is_not_exported_as_writable() {
    let Some(device) = device() else { return };
    let tensor = to_device(&[1.0_f32; 4], &device).unwrap().into_read_only();
    let refusal = tensor.to_buffer().unwrap_err();
    assert!(matches!(refusal, Error::Tensor(dlbridge::Error::ReadOnly)), "{refusal}");
    let handle = tensor.to_read_only_buffer().unwrap().handle();
    assert_eq!(handle.as_raw(), tensor.data().addr() as u64);
    assert_eq!(numbers(&tensor.to_host(&device).unwrap()), [1.0; 4]);
    assert!(tensor.into_raw_legacy().is_err(), "the legacy struct cannot express read-only");
}

#[test]
fn threads_copy_in_parallel_and_drop_tensors_of_others() {
    let Some(device) = device() else { return };
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let device = device.clone();
            thread::spawn(move || {
                let made: Vec<Tensor> =
                    (0..25).map(|i| to_device(&[[number, i]; 100], &device).unwrap()).collect();
                for (i, tensor) in made.iter().enumerate() {
                    let host = tensor.to_host(&device).unwrap().index_axis(0, 99).unwrap();
                    assert_eq!(host.view::<i32>().unwrap().to_vec(), [number, i as i32]);
                }
                made
            })
        })
        .collect();
    let made: Vec<Tensor> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
    assert_eq!(made.len(), 100);
    let handles: std::collections::HashSet<_> = made.iter().map(|t| t.data().addr()).collect();
    assert_eq!(handles.len(), 100, "each tensor has its own buffer");
    thread::spawn(move || drop(made)).join().unwrap();
}

#[test]
fn copy_waits_for_the_holder_of_the_queue() {
    let (Some(device), Some(other)) = (device(), device()) else { return };
    let control = to_device(&[1.0_f32], &other).unwrap();
    let tensor = to_device(&[1_u32], &device).unwrap().into_shared();
    let buffer = tensor.to_buffer().unwrap().handle();
    let queue = device.queue();
    let started = Arc::new(Barrier::new(9));
    let copies: Vec<_> = (0..8)
        .map(|_| {
            let (tensor, device, started) = (tensor.share(), device.clone(), Arc::clone(&started));
            thread::spawn(move || {
                started.wait();
                tensor.to_host(&device).unwrap().view::<u32>().unwrap().to_vec()
            })
        })
        .collect();
    started.wait();
    // Long enough for one of them to finish if it did not wait: as long as many copies of another device, and more.
    (0..20).for_each(|_| drop(control.to_host(&other).unwrap()));
    thread::sleep(Duration::from_millis(200));
    assert!(copies.iter().all(|copy| !copy.is_finished()));
    let _filling = fill(&device, &queue, buffer, [2]);
    drop(queue);
    for copy in copies {
        assert_eq!(
            copy.join().unwrap(),
            [2],
            "the copy runs after earlier submissions to the queue"
        );
    }
}

#[test]
fn copy_waits_for_the_commands_in_the_queue() {
    let Some(device) = device() else { return };
    let tensor = to_device(&vec![0_u32; 1 << 20], &device).unwrap();
    let buffer = tensor.to_buffer().unwrap().handle();
    let _filling = fill(&device, &device.queue(), buffer, 1..=50);
    let host = tensor.to_host(&device).unwrap();
    assert!(host.view::<u32>().unwrap().iter().all(|&value| value == 50));
}
