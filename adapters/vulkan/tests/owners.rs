//! Devices and buffers that the program owns, and the drop order of their owners.

mod support;

use std::thread;

use ash::vk;
use ash::vk::Handle;
use dlbridge::{Access, DataType, Device as TensorDevice, DeviceType, Tensor, TensorRef};
use dlbridge_testing::{Counted, Drops, consume, numbers};
use dlbridge_vulkan::{BufferParts, Device, DeviceParts, Error, TensorExt, from_buffer, to_device};
use support::device;

/// A logical device that the program made itself, and destroys.
struct Engine {
    parts: DeviceParts,
    _instance: Device,
    _dropped: Counted<()>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: this is the last handle to it.
        unsafe { self.parts.device.destroy_device(None) };
    }
}

impl Engine {
    /// Makes a second logical device of an instance that `device` keeps.
    fn new(device: &Device, drops: &Drops) -> Self {
        let DeviceParts { instance, physical_device, queue_family, .. } = device.parts().clone();
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(queue_family)
            .queue_priorities(&[1.0])];
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
        // SAFETY: the instance lives, and `device`'s parts belong to it.
        let (device, queue, keeper) = unsafe {
            let made = instance.create_device(physical_device, &info, None).unwrap();
            let queue = made.get_device_queue(queue_family, 0);
            (made, queue, device.clone())
        };
        let parts = DeviceParts { instance, physical_device, device, queue_family, queue };
        Self { parts, _instance: keeper, _dropped: Counted::new((), drops) }
    }

    fn adopted(device: &Device, drops: &Drops) -> Device {
        let engine = Self::new(device, drops);
        let parts = engine.parts.clone();
        // SAFETY: the engine keeps all parts, and nothing else submits.
        unsafe { Device::from_parts(engine, parts) }.unwrap()
    }
}

/// A buffer of sixteen floats with its own memory.
struct Floats {
    device: Device,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    _dropped: Counted<()>,
}

impl Drop for Floats {
    fn drop(&mut self) {
        // SAFETY: buffer and memory were made from the device, and no commands run.
        unsafe {
            self.device.ash().destroy_buffer(self.buffer, None);
            self.device.ash().free_memory(self.memory, None);
        }
    }
}

impl Floats {
    const SIZE: u64 = 64;

    /// The numbers from 0 to 15.
    fn new(device: &Device, drops: &Drops) -> Self {
        let ash = device.ash();
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(Self::SIZE).usage(usage);
        let visible =
            vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        // SAFETY: the memory has a type that the buffer allows and the host can map; it is mapped while no commands
        // run.
        unsafe {
            let buffer = ash.create_buffer(&info, None).unwrap();
            let needs = ash.get_buffer_memory_requirements(buffer);
            let parts = device.parts();
            let all = parts.instance.get_physical_device_memory_properties(parts.physical_device);
            let kind = (0..all.memory_type_count).find(|&index| {
                let flags = all.memory_types[index as usize].property_flags;
                needs.memory_type_bits & (1 << index) != 0 && flags.contains(visible)
            });
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(kind.unwrap());
            let memory = ash.allocate_memory(&info, None).unwrap();
            ash.bind_buffer_memory(buffer, memory, 0).unwrap();
            let none = vk::MemoryMapFlags::empty();
            let first = ash.map_memory(memory, 0, Self::SIZE, none).unwrap().cast::<[f32; 16]>();
            first.write(std::array::from_fn(|i| i as f32));
            ash.unmap_memory(memory);
            Self { device: device.clone(), buffer, memory, _dropped: Counted::new((), drops) }
        }
    }

    fn parts(&self) -> BufferParts {
        BufferParts::new(self.buffer, Self::SIZE, DataType::FLOAT32)
    }

    fn into_tensor(self, parts: BufferParts, shape: &[usize]) -> dlbridge_vulkan::Result<Tensor> {
        // SAFETY: the owner is the buffer.
        unsafe { from_buffer(self, parts, shape) }
    }
}

/// Copies a tensor over `Floats` to the host.
fn read(tensor: &Tensor, device: &Device) -> Vec<f32> {
    // SAFETY: the tests make these buffers from this device, for copies, and with this size.
    numbers(&unsafe { tensor.to_host_unchecked(device) }.unwrap())
}

#[test]
fn programs_own_buffer_becomes_a_tensor() {
    let Some(device) = device() else { return };
    let drops = Drops::default();
    let floats = Floats::new(&device, &drops);
    let (handle, parts) = (floats.buffer, floats.parts());
    let tensor = floats.into_tensor(parts, &[4, 4]).unwrap();
    assert_eq!(tensor.device(), TensorDevice::new(DeviceType::VULKAN, 0));
    assert_eq!((tensor.shape(), tensor.strides()), (&[4, 4][..], &[4, 1][..]));
    assert_eq!((tensor.data().addr() as u64, tensor.byte_offset()), (handle.as_raw(), 0));
    assert_eq!(tensor.to_buffer().unwrap().handle(), handle);
    assert!(matches!(tensor.to_host(&device), Err(Error::OtherDevice)), "its device is unknown");
    assert_eq!(read(&tensor, &device), (0..16).map(|i| i as f32).collect::<Vec<_>>());
    let managed = tensor.slice(0, 1..3).unwrap().transpose().flip(1).unwrap().into_raw();
    assert_eq!(drops.count(), 0);
    // SAFETY: a valid managed tensor, which this test owns.
    let part = unsafe { Tensor::from_raw(managed) }.unwrap();
    assert_eq!((part.byte_offset(), part.to_buffer().unwrap().bytes()), (32, 16..48));
    assert_eq!(read(&part, &device), [8.0, 4.0, 9.0, 5.0, 10.0, 6.0, 11.0, 7.0]);
    thread::spawn(move || drop(part)).join().unwrap();
    assert_eq!(drops.count(), 1);
}

#[test]
fn deleter_drops_the_buffer_once() {
    let Some(device) = device() else { return };
    let drops = Drops::default();
    let floats = Floats::new(&device, &drops);
    let parts = BufferParts { byte_offset: 8, ..floats.parts() };
    let tensor = floats.into_tensor(parts, &[14]).unwrap().into_shared();
    let (lent, legacy) = (tensor.to_raw(), tensor.to_raw_legacy().unwrap());
    drop(tensor);
    assert_eq!(drops.count(), 0);
    // SAFETY: the pointer is from `to_raw`, and its deleter is called once.
    unsafe { (*lent).deleter.unwrap()(lent) };
    assert_eq!(drops.count(), 0);
    // SAFETY: the pointer is from `to_raw_legacy`, and its deleter is called once.
    unsafe { (*legacy).deleter.unwrap()(legacy) };
    assert_eq!(drops.count(), 1);
}

#[test]
fn elements_of_any_dtype_begin_at_any_byte() {
    let Some(device) = device() else { return };
    let drops = Drops::default();
    let make = |dtype, byte_offset, subbyte_padded, shape: &[usize]| {
        let floats = Floats::new(&device, &drops);
        let parts = BufferParts { dtype, byte_offset, subbyte_padded, ..floats.parts() };
        floats.into_tensor(parts, shape)
    };
    let bytes = |tensor: &Tensor| {
        // SAFETY: the buffer is of this device, for copies, and the call compares the tensor with its size.
        let host = unsafe { tensor.to_host_unchecked(&device) }.unwrap();
        TensorRef::from(&host).as_bytes().unwrap().to_vec()
    };
    let halves = make(DataType::FLOAT16, 6, false, &[2]).unwrap();
    assert_eq!((halves.byte_offset(), bytes(&halves)), (6, vec![0x80, 0x3f, 0, 0]));
    let flags = make(DataType::BOOL, 3, false, &[2, 2]).unwrap();
    assert_eq!((flags.dtype(), bytes(&flags)), (DataType::BOOL, vec![0, 0, 0, 0x80]));
    assert_eq!(make(DataType::UINT4, 0, false, &[128]).unwrap().nbytes(), 64);
    assert_eq!(make(DataType::UINT4, 0, true, &[64]).unwrap().nbytes(), 64);
    let long = make(DataType::UINT4, 0, true, &[65]);
    assert!(matches!(long, Err(Error::TooSmall { first: 0, end: 65, size: 64 })));
    let long = make(DataType::UINT4, 1, false, &[128]);
    assert!(matches!(long, Err(Error::TooSmall { first: 1, end: 65, size: 64 })));
    drop((halves, flags));
    assert_eq!(drops.count(), 6);
}

#[test]
fn unsuitable_buffer_is_refused_and_the_owner_dropped() {
    let Some(device) = device() else { return };
    let drops = Drops::default();
    let refused = |change: fn(&mut BufferParts), shape: &[usize]| {
        let floats = Floats::new(&device, &drops);
        let mut parts = floats.parts();
        change(&mut parts);
        let before = drops.count();
        let refusal = floats.into_tensor(parts, shape).unwrap_err();
        assert_eq!(drops.count(), before + 1, "{refusal}");
        refusal
    };
    let long = refused(|_| (), &[17]);
    assert!(matches!(long, Error::TooSmall { first: 0, end: 68, size: 64 }), "{long}");
    let late = refused(|parts| parts.byte_offset = 4, &[4, 4]);
    assert!(matches!(late, Error::TooSmall { first: 4, end: 68, size: 64 }), "{late}");
    let far = refused(|parts| parts.byte_offset = 1 << 62, &[1]);
    assert!(matches!(far, Error::TooSmall { .. }), "{far}");
    let beyond = refused(|parts| parts.byte_offset = u64::MAX, &[1]);
    assert!(matches!(beyond, Error::Tensor(dlbridge::Error::TooLarge)), "{beyond}");
    let vast = refused(|_| (), &[usize::MAX, 2]);
    assert!(matches!(vast, Error::Tensor(dlbridge::Error::TooLarge)), "{vast}");
    let none = refused(|parts| parts.buffer = vk::Buffer::null(), &[1]);
    assert!(matches!(none, Error::Tensor(dlbridge::Error::NullPointer { .. })), "{none}");
}

#[test]
fn copy_without_enough_memory_is_an_error() {
    let Some(device) = device() else { return };
    let drops = Drops::default();
    let floats = Floats::new(&device, &drops);
    let parts = BufferParts { size: 1 << 52, ..floats.parts() };
    let tensor = floats.into_tensor(parts, &[1 << 50]).unwrap();
    // SAFETY: nothing is copied, because the host cannot allocate the extent.
    let refusal = unsafe { tensor.to_host_unchecked(&device) }.unwrap_err();
    assert!(matches!(refusal, Error::Vulkan(_)), "{refusal}");
    let said = refusal.to_string();
    assert!(said.starts_with("Vulkan: ") && said.contains("(ERROR_OUT_OF_"), "{said}");
    drop(tensor);
    assert_eq!(drops.count(), 1);
}

#[test]
fn access_is_the_owners() {
    let Some(device) = device() else { return };
    let drops = Drops::default();
    for access in [Access::Exclusive, Access::Shared, Access::ReadOnly] {
        let floats = Floats::new(&device, &drops);
        let parts = BufferParts { access, id: 3, ..floats.parts() };
        let tensor = floats.into_tensor(parts, &[16]).unwrap();
        assert_eq!((tensor.access(), tensor.device().id()), (access, 3));
        assert_eq!(tensor.to_buffer().is_err(), access == Access::ReadOnly);
        assert!(tensor.to_read_only_buffer().is_ok());
    }
    let floats = Floats::new(&device, &drops);
    let parts = floats.parts();
    let empty = floats.into_tensor(parts, &[0, 3]).unwrap();
    assert!(empty.data().is_null());
    assert!(read(&empty, &device).is_empty());
}

#[test]
fn tensors_keep_their_device_alive() {
    let Some(own) = device() else { return };
    let drops = Drops::default();
    let device = Engine::adopted(&own, &drops);
    assert_eq!((device.id(), device.parts().queue_family), (own.id(), own.parts().queue_family));
    let tensor = to_device(&[1.0_f32, 2.0, 3.0], &device).unwrap();
    assert!(matches!(tensor.to_host(&own), Err(Error::OtherDevice)));
    assert_eq!(numbers(&tensor.to_host(&device).unwrap()), [1.0, 2.0, 3.0]);
    drop((own, device));
    assert_eq!(drops.count(), 0, "the tensor's buffer still lives");
    let part = tensor.slice(0, 1..).unwrap();
    assert_eq!(drops.count(), 0);
    thread::spawn(move || {
        consume(part);
    })
    .join()
    .unwrap();
    assert_eq!(drops.count(), 1);
}

#[test]
fn physical_device_of_another_instance_is_refused() {
    let (Some(one), Some(other)) = (device(), device()) else { return };
    let drops = Drops::default();
    let engine = Engine::new(&one, &drops);
    let physical_device = other.parts().physical_device;
    assert_ne!(engine.parts.physical_device, physical_device, "each instance lists its own");
    let parts = DeviceParts { physical_device, ..engine.parts.clone() };
    // SAFETY: the parts do not belong together; the call refuses them before it uses them.
    let refusal = unsafe { Device::from_parts(engine, parts) }.unwrap_err();
    assert!(matches!(refusal, Error::UnlistedDevice), "{refusal}");
    assert_eq!(drops.count(), 1);
}
