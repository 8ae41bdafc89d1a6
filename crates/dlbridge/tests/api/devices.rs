//! Every device of the specification, and unknown ones: named, passed through both ABIs and through operations that
//! need no element, printed, and refused to the CPU. The data is at an unmapped address, so any access to a byte
//! ends the process.

use core::ffi::c_void;
use core::ptr;

use crate::common::{Producer, take, take_legacy};
use dlbridge::{DataType, Device, DeviceType, Error, TensorRef};

/// The names and codes of `dlpack.h` 1.3 and of the main branch after it; true if the CPU can read the data; true if
/// `data` is an address.
const DEVICES: [(&str, i32, bool, bool); 22] = [
    ("cpu", 1, true, true),
    ("cuda", 2, false, true),
    ("cuda_host", 3, true, true),
    ("opencl", 4, false, false),
    ("vulkan", 7, false, false),
    ("metal", 8, false, false),
    ("vpi", 9, false, false),
    ("rocm", 10, false, true),
    ("rocm_host", 11, true, true),
    ("ext_dev", 12, false, false),
    ("cuda_managed", 13, false, true),
    ("oneapi", 14, false, true),
    ("webgpu", 15, false, false),
    ("hexagon", 16, false, false),
    ("maia", 17, false, false),
    ("trn", 18, false, false),
    ("tpu", 19, false, false),
    ("tpu_host", 20, false, false),
    ("ascend", 21, false, false),
    ("device_type_22", 22, false, false),
    ("device_type_0", 0, false, false),
    ("device_type_-7", -7, false, false),
];

/// A 3 x 4 matrix of float32 on a device, 16 bytes after the address 0x4_0000.
fn matrix(code: i32, id: i32) -> Producer {
    let nowhere: *mut c_void = ptr::without_provenance_mut(0x4_0000);
    Producer::at(nowhere, DataType::FLOAT32, &[3, 4]).device(code, id).byte_offset(16)
}

#[test]
fn every_device_has_its_name_and_code() {
    for (name, code, on_host, addressable) in DEVICES {
        let device_type = DeviceType::from_code(code);
        assert_eq!((device_type.code(), device_type.to_string()), (code, name.to_owned()));
        assert_eq!(device_type.is_host_accessible(), on_host, "{name}");
        assert_eq!(device_type.is_addressable(), addressable, "{name}");
        for id in [0, 3] {
            let device = Device::new(device_type, id);
            assert_eq!(device.to_string().parse(), Ok(device), "{name}");
        }
    }
    let known = (0..64).filter(|&code| DeviceType::from_code(code).name().is_some()).count();
    assert_eq!(known, 19, "the number of devices in dlpack.h and the main branch");
}

#[test]
fn device_name_with_another_spelling_of_the_number_is_refused() {
    for name in [
        "cpu:+0",
        "cpu:-0",
        "cpu:00",
        "cuda:+1",
        "cuda:01",
        "cuda:",
        "cuda: 1",
        "cuda:1 ",
        "cuda:1:2",
        "cuda:2147483648",
        "cuda:--1",
        "cuda:-",
        "device_type_+7",
        "device_type_07",
        "device_type_",
    ] {
        assert_eq!(name.parse::<Device>(), Err(Error::UnknownDeviceName), "{name}");
    }
    for id in [i32::MIN, -1, 0, 10, i32::MAX] {
        let name = format!("cuda:{id}");
        assert_eq!(name.parse(), Ok(Device::new(DeviceType::CUDA, id)), "{name}");
    }
}

#[test]
fn every_device_round_trips_through_both_structs() {
    for (name, code, _, addressable) in DEVICES {
        let place = if addressable { (0x4_0010, 0) } else { (0x4_0000, 16) };
        let producer = matrix(code, 3);
        let deleted = producer.deleted();
        let mut tensor = producer.import().unwrap();
        for turn in 0..4 {
            assert_eq!(tensor.device(), Device::new(DeviceType::from_code(code), 3), "{name}");
            assert_eq!((tensor.data().addr(), tensor.byte_offset()), place, "{name}");
            assert_eq!((tensor.shape(), tensor.strides()), (&[3, 4][..], &[4, 1][..]), "{name}");
            tensor = match turn % 2 {
                0 => take(tensor.into_raw()).unwrap(),
                _ => take_legacy(tensor.into_raw_legacy().unwrap()).unwrap(),
            };
        }
        assert_eq!(deleted.get(), 0, "{name}");
        drop(tensor);
        assert_eq!(deleted.get(), 1, "{name}");
    }
}

#[test]
fn slice_of_device_data_does_not_read_it() {
    for (name, code, _, addressable) in DEVICES {
        let tensor = matrix(code, 0).import().unwrap();
        // The last element of every second row, backwards.
        let part =
            tensor.step_by(0, 2).unwrap().flip(0).unwrap().slice(1, 3..).unwrap().transpose();
        let bytes = 16 + 2 * 16 + 3 * 4;
        let place = if addressable { (0x4_0000 + bytes, 0) } else { (0x4_0000, bytes as u64) };
        assert_eq!((part.data().addr(), part.byte_offset()), place, "{name}");
        assert_eq!((part.shape(), part.strides()), (&[1, 2][..], &[1, -8][..]), "{name}");
        assert_eq!(TensorRef::from(&part).byte_bounds(), -32..4, "{name}");
        assert_eq!(part.nbytes(), 8, "{name}");
    }
}

#[test]
fn cpu_view_of_device_data_is_refused() {
    for (name, code, on_host, _) in DEVICES.into_iter().filter(|(.., on_host, _)| !on_host) {
        assert!(!on_host);
        let mut tensor = matrix(code, 1).flags(2).import().unwrap();
        let device = Device::new(DeviceType::from_code(code), 1);
        let refusal = Error::NotHostAccessible { device };
        assert!(refusal.to_string().contains(&format!("{name}:1")), "{refusal}");
        assert_eq!(tensor.view::<f32>().unwrap_err(), refusal);
        assert_eq!(tensor.view_mut::<f32>().unwrap_err(), refusal);
        assert_eq!(tensor.to_copy().unwrap_err(), refusal);
        let borrowed = TensorRef::from(&tensor);
        assert_eq!(borrowed.as_bytes().unwrap_err(), refusal);
        assert_eq!(borrowed.to_byte_swapped().unwrap_err(), refusal);
    }
}
