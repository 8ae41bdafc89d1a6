//! Vulkan without wgpu, on the device and the queue that wgpu uses.

use std::ffi::c_void;
use std::{ptr, slice};

use ash::vk::{self, Handle};
use dlbridge::{Device as TensorDevice, DeviceType, Tensor};
use wgpu::hal::api;

use crate::gpu::Gpu;

/// Handles of wgpu's objects, which the tests keep alive for as long.
#[derive(Clone)]
pub(crate) struct Vulkan {
    instance: ash::Instance,
    device: ash::Device,
    physical: vk::PhysicalDevice,
    queue: vk::Queue,
    family: u32,
    /// Keeps the `VkDevice` alive.
    _keep: wgpu::Device,
}

/// A buffer of floats that the host can read.
pub(crate) struct Memory {
    vulkan: Vulkan,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    mapped: *mut f32,
    count: usize,
}

// SAFETY: only this value uses the mapping, and only to read.
unsafe impl Send for Memory {}
// SAFETY: only this value uses the mapping, and only to read.
unsafe impl Sync for Memory {}

impl Vulkan {
    pub(crate) fn of(gpu: &Gpu) -> Self {
        // SAFETY: the code destroys none of wgpu's objects.
        let device = unsafe { gpu.device.as_hal::<api::Vulkan>() }.unwrap();
        Self {
            instance: device.shared_instance().raw_instance().clone(),
            device: device.raw_device().clone(),
            physical: device.raw_physical_device(),
            queue: device.raw_queue(),
            family: device.queue_family_index(),
            _keep: gpu.device.clone(),
        }
    }

    /// The device of tensors.
    pub(crate) fn place(&self) -> TensorDevice {
        // SAFETY: the instance lives.
        let listed = unsafe { self.instance.enumerate_physical_devices() }.unwrap();
        let place = listed.iter().position(|listed| *listed == self.physical).unwrap();
        TensorDevice::new(DeviceType::VULKAN, place as i32)
    }

    /// Makes memory with some floats.
    pub(crate) fn memory(&self, elements: &[f32]) -> Memory {
        let size = size_of_val(elements) as u64;
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        let wanted = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        // SAFETY: the device lives; the memory has a type that the buffer allows, and is large enough; it is mapped
        // once, and receives as many floats as it has.
        unsafe {
            let info = vk::BufferCreateInfo::default().size(size).usage(usage);
            let buffer = self.device.create_buffer(&info, None).unwrap();
            let needed = self.device.get_buffer_memory_requirements(buffer);
            let types = self.instance.get_physical_device_memory_properties(self.physical);
            let place = types.memory_types_as_slice().iter().enumerate().position(|(i, t)| {
                needed.memory_type_bits & 1 << i != 0 && t.property_flags.contains(wanted)
            });
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(needed.size)
                .memory_type_index(place.unwrap() as u32);
            let memory = self.device.allocate_memory(&info, None).unwrap();
            self.device.bind_buffer_memory(buffer, memory, 0).unwrap();
            let flags = vk::MemoryMapFlags::empty();
            let mapped: *mut f32 = self.device.map_memory(memory, 0, size, flags).unwrap().cast();
            mapped.copy_from_nonoverlapping(elements.as_ptr(), elements.len());
            Memory { vulkan: self.clone(), buffer, memory, mapped, count: elements.len() }
        }
    }

    /// Fills the tensor's buffer with a number.
    pub(crate) fn fill(&self, tensor: &Tensor, number: f32) {
        self.run(|commands| {
            // SAFETY: the buffer lives as long as the tensor, and may be written.
            unsafe {
                self.device.cmd_fill_buffer(
                    commands,
                    buffer(tensor),
                    0,
                    vk::WHOLE_SIZE,
                    number.to_bits(),
                );
            }
        });
    }

    /// Returns the first floats of a tensor's buffer.
    pub(crate) fn read(&self, tensor: &Tensor, count: usize) -> Vec<f32> {
        let target = self.memory(&vec![-1.0; count]);
        let region = vk::BufferCopy::default().size(4 * count as u64);
        self.run(|commands| {
            // SAFETY: both buffers have `count` floats.
            unsafe {
                self.device.cmd_copy_buffer(commands, buffer(tensor), target.buffer, &[region]);
            }
        });
        target.read()
    }

    /// Runs commands between those of wgpu, and waits for them.
    fn run(&self, record: impl FnOnce(vk::CommandBuffer)) {
        let all = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
            .dst_access_mask(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE);
        let barrier = |commands| {
            let stage = vk::PipelineStageFlags::ALL_COMMANDS;
            let flags = vk::DependencyFlags::empty();
            // SAFETY: the commands are being recorded.
            unsafe {
                self.device.cmd_pipeline_barrier(commands, stage, stage, flags, &[all], &[], &[])
            };
        };
        // SAFETY: the device lives; the pool and its objects are destroyed after the commands; no other thread uses the
        // queue of this test's own device.
        unsafe {
            let info = vk::CommandPoolCreateInfo::default().queue_family_index(self.family);
            let pool = self.device.create_command_pool(&info, None).unwrap();
            let info =
                vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
            let commands = self.device.allocate_command_buffers(&info).unwrap();
            self.device.begin_command_buffer(commands[0], &Default::default()).unwrap();
            barrier(commands[0]);
            record(commands[0]);
            barrier(commands[0]);
            self.device.end_command_buffer(commands[0]).unwrap();
            let submit = vk::SubmitInfo::default().command_buffers(&commands);
            self.device.queue_submit(self.queue, &[submit], vk::Fence::null()).unwrap();
            self.device.queue_wait_idle(self.queue).unwrap();
            self.device.destroy_command_pool(pool, None);
        }
    }
}

/// Returns the handle in a tensor on `vulkan`.
fn buffer(tensor: &Tensor) -> vk::Buffer {
    vk::Buffer::from_raw(tensor.data().addr() as u64)
}

impl Memory {
    /// Returns the data pointer of a tensor.
    pub(crate) fn data(&self) -> *mut c_void {
        ptr::without_provenance_mut(self.buffer.as_raw() as usize)
    }

    /// The number of floats.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn read(&self) -> Vec<f32> {
        // SAFETY: the memory is mapped and has `len` floats, which no command writes meanwhile.
        unsafe { slice::from_raw_parts(self.mapped, self.count) }.to_vec()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: no command uses the buffer any more, and the value is not used again.
        unsafe {
            self.vulkan.device.destroy_buffer(self.buffer, None);
            self.vulkan.device.free_memory(self.memory, None);
        }
    }
}
