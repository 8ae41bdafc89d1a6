//! Buffers with memory of their own.

use std::slice;
use std::sync::Arc;

use ash::vk;
use ash::vk::{BufferUsageFlags as Usage, MemoryPropertyFlags as Properties};

use crate::{Device, Result};

/// A `VkBuffer` and its memory, destroyed when it is dropped; it keeps the device.
pub(crate) struct Buffer {
    device: Device,
    handle: vk::Buffer,
    memory: vk::DeviceMemory,
    size: u64,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // First: the next buffer may have the same handle. Another one that lives may have it too, and stays known.
        self.device.forget(self);
        // SAFETY: made here from this device, which lives; no memory is NULL, which is nothing. No commands use it: ours
        // have been waited for, and others are the promise of who submitted them.
        unsafe {
            self.device.ash().destroy_buffer(self.handle, None);
            self.device.ash().free_memory(self.memory, None);
        }
    }
}

impl Buffer {
    /// A buffer for the elements of a tensor, of some bytes and what is missing to whole words.
    pub(crate) fn storage(device: &Device, bytes: usize) -> Result<Arc<Self>> {
        let usage = Usage::STORAGE_BUFFER | Usage::TRANSFER_SRC | Usage::TRANSFER_DST;
        // Vulkan has no buffer of nothing.
        let size = (bytes as u64).max(1).next_multiple_of(4);
        let wanted = [Properties::DEVICE_LOCAL, Properties::empty()];
        let buffer = Arc::new(Self::new(device, size, usage, &wanted)?);
        device.remember(&buffer);
        Ok(buffer)
    }

    /// A buffer that the host fills, for a copy to the device.
    pub(crate) fn to_copy_from(device: &Device, size: u64) -> Result<Self> {
        let coherent = Properties::HOST_VISIBLE | Properties::HOST_COHERENT;
        Self::new(device, size, Usage::TRANSFER_SRC, &[coherent])
    }

    /// A buffer that the host reads after a copy from the device.
    pub(crate) fn to_copy_into(device: &Device, size: u64) -> Result<Self> {
        let coherent = Properties::HOST_VISIBLE | Properties::HOST_COHERENT;
        let wanted = [coherent | Properties::HOST_CACHED, coherent];
        Self::new(device, size, Usage::TRANSFER_DST, &wanted)
    }

    /// A buffer with memory of the first properties that there are.
    fn new(device: &Device, size: u64, usage: Usage, wanted: &[Properties]) -> Result<Self> {
        let ash = device.ash();
        let info = vk::BufferCreateInfo::default().size(size).usage(usage);
        // SAFETY: a size that is not 0, and usages that every device knows.
        let handle = unsafe { ash.create_buffer(&info, None) }?;
        let memory = vk::DeviceMemory::null();
        let mut buffer = Self { device: device.clone(), handle, memory, size };
        // SAFETY: made above.
        let needs = unsafe { ash.get_buffer_memory_requirements(handle) };
        let kind = wanted.iter().find_map(|&p| device.memory_type(needs.memory_type_bits, p));
        let kind = kind.ok_or(vk::Result::ERROR_FEATURE_NOT_PRESENT)?;
        let info =
            vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(kind);
        // SAFETY: as much as the buffer needs, of a type that it can have; bound once.
        unsafe {
            buffer.memory = ash.allocate_memory(&info, None)?;
            ash.bind_buffer_memory(handle, buffer.memory, 0)?;
        }
        Ok(buffer)
    }

    pub(crate) fn handle(&self) -> vk::Buffer {
        self.handle
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Writes bytes to the beginning of memory that the host sees, and zeros behind them.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.mapped(|target| {
            let (target, rest) = target.split_at_mut(bytes.len());
            target.copy_from_slice(bytes);
            rest.fill(0);
        })
    }

    /// Reads all bytes of memory that the host sees.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.mapped(|source| bytes.copy_from_slice(source))
    }

    /// What the host sees of the memory, which is coherent, for the length of a call.
    fn mapped(&mut self, access: impl FnOnce(&mut [u8])) -> Result<()> {
        let (ash, flags) = (self.device.ash(), vk::MemoryMapFlags::empty());
        // SAFETY: memory that the host sees, by those who made it, and nobody else maps it (`&mut self`).
        let first = unsafe { ash.map_memory(self.memory, 0, self.size, flags) }?;
        // SAFETY: mapped above, so many bytes, with which no commands are busy: they are waited for.
        access(unsafe { slice::from_raw_parts_mut(first.cast(), self.size as usize) });
        // SAFETY: mapped above, and the slice is gone.
        unsafe { ash.unmap_memory(self.memory) };
        Ok(())
    }
}
