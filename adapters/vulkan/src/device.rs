//! A logical device, its queue, and the buffers that were made with it.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::ptr;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ash::vk;
use ash::vk::{BufferUsageFlags as Usage, MemoryPropertyFlags as Properties};

use crate::open::{self, DeviceParts};
use crate::{Error, Result};

/// A logical device of Vulkan with one of its queues, counted: tensors that were made with it keep it.
///
/// ```no_run
/// use dlbridge_vulkan::Device;
///
/// let device = Device::new(0)?;
/// let second = device.clone();         // the same VkDevice
/// assert_eq!(second.ash().handle(), device.ash().handle());
/// # Ok::<(), dlbridge_vulkan::Error>(())
/// ```
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    parts: DeviceParts,
    id: i32,
    /// Held by whoever uses the queue.
    queue: Mutex<()>,
    memory_types: Vec<vk::MemoryType>,
    buffers: Mutex<HashMap<vk::Buffer, Weak<Buffer>>>,
    _owner: Box<dyn Any + Send + Sync>,
}

/// The queue of a [`Device`], which nobody else uses meanwhile.
///
/// ```no_run
/// use ash::vk;
/// use dlbridge_vulkan::Device;
///
/// fn submit(device: &Device, commands: vk::CommandBuffer, fence: vk::Fence) -> ash::prelude::VkResult<()> {
///     let commands = [commands];
///     let work = [vk::SubmitInfo::default().command_buffers(&commands)];
///     let queue = device.queue();
///     // SAFETY: commands and fence of this device, which is waited for before anything they use goes.
///     unsafe { device.ash().queue_submit(*queue, &work, fence) }
/// }
/// ```
pub struct Queue<'a> {
    queue: vk::Queue,
    _held: MutexGuard<'a, ()>,
}

impl Deref for Queue<'_> {
    type Target = vk::Queue;

    fn deref(&self) -> &vk::Queue {
        &self.queue
    }
}

impl Device {
    /// Opens a physical device by its number, its place in `vkEnumeratePhysicalDevices`: a logical device of
    /// Vulkan 1.1 or the loader's version if that is less, without features and extensions, and its first queue
    /// that runs compute shaders.
    ///
    /// # Errors
    /// [`Error::NoLoader`], [`Error::NoDevice`], [`Error::NoQueue`]; what Vulkan says, which is
    /// `ERROR_INCOMPATIBLE_DRIVER` where there is a loader and no driver.
    ///
    /// ```no_run
    /// let device = dlbridge_vulkan::Device::new(0)?;
    /// # Ok::<(), dlbridge_vulkan::Error>(())
    /// ```
    pub fn new(id: i32) -> Result<Self> {
        let (owner, parts) = open::open(id)?;
        // SAFETY: the owner has just made all of it, and destroys it when it is dropped.
        unsafe { Self::from_parts(owner, parts) }
    }

    /// A device over Vulkan objects that the program has already, and an owner that keeps them.
    ///
    /// # Errors
    /// [`Error::UnlistedDevice`] if the physical device is none of the instance; what Vulkan says. The owner is dropped.
    ///
    /// # Safety
    /// - The parts belong together: each was made from the one before it, and the queue is of the family.
    /// - They live until the owner is dropped, which may be on any thread.
    /// - Nobody uses the queue without holding [`Device::queue`], nor has another `Device` over it: neither to submit, to bind
    ///   sparse memory, or to present, nor to wait, be it for the queue (`vkQueueWaitIdle`) or for all (`vkDeviceWaitIdle`).
    ///   What else is asked of who uses [`Device::ash`] is [there](Device::ash).
    /// - The queue runs copies: its family says so, or compute, or graphics.
    ///
    /// ```no_run
    /// use dlbridge_vulkan::{Device, DeviceParts, Result};
    ///
    /// fn adopt(owner: std::sync::Arc<Engine>, parts: DeviceParts) -> Result<Device> {
    ///     // SAFETY: the engine keeps all of it, and takes `Device::queue` for whatever it does there.
    ///     unsafe { Device::from_parts(owner, parts) }
    /// }
    /// # struct Engine;
    /// ```
    pub unsafe fn from_parts<O>(owner: O, parts: DeviceParts) -> Result<Self>
    where
        O: Send + Sync + 'static,
    {
        // SAFETY: the caller guarantees that the instance lives until the owner is dropped.
        let devices = unsafe { parts.instance.enumerate_physical_devices() }?;
        let place = devices.iter().position(|&device| device == parts.physical_device);
        let id = place.and_then(|place| i32::try_from(place).ok());
        let id = id.ok_or(Error::UnlistedDevice)?;
        // SAFETY: a physical device of the instance.
        let memory =
            unsafe { parts.instance.get_physical_device_memory_properties(parts.physical_device) };
        Ok(Self(Arc::new(Inner {
            parts,
            id,
            queue: Mutex::new(()),
            memory_types: memory.memory_types_as_slice().to_vec(),
            buffers: Mutex::default(),
            _owner: Box::new(owner),
        })))
    }

    /// The number of the physical device, which is the id of tensors' devices.
    ///
    /// ```no_run
    /// # let device = dlbridge_vulkan::Device::new(0)?;
    /// assert_eq!(device.id(), 0);
    /// # Ok::<(), dlbridge_vulkan::Error>(())
    /// ```
    pub fn id(&self) -> i32 {
        self.0.id
    }

    /// The logical device. All that ash does with it is unsafe, and asks for this, too:
    /// - Whatever the program makes from the device, it destroys before the last `Device` and the last tensor go.
    /// - It uses the [queue](Device::queue) only while it holds it, and waits for the whole device (`vkDeviceWaitIdle`) only
    ///   then.
    /// - A copy waits for what is in the device's queue. As long as one may run, commands of other queues do not write
    ///   the bytes that are copied; they are done before, and what they wrote is available.
    ///
    /// ```no_run
    /// use ash::vk;
    ///
    /// # let device = dlbridge_vulkan::Device::new(0)?;
    /// // SAFETY: the device lives, and the fence is destroyed before it.
    /// unsafe {
    ///     let fence = device.ash().create_fence(&vk::FenceCreateInfo::default(), None)?;
    ///     device.ash().destroy_fence(fence, None);
    /// }
    /// # Ok::<(), dlbridge_vulkan::Error>(())
    /// ```
    pub fn ash(&self) -> &ash::Device {
        &self.0.parts.device
    }

    /// All that the device is made of. Whoever uses the queue takes it by [`Device::queue`].
    ///
    /// ```no_run
    /// # let device = dlbridge_vulkan::Device::new(0)?;
    /// let parts = device.parts();
    /// // SAFETY: both live.
    /// let properties = unsafe { parts.instance.get_physical_device_properties(parts.physical_device) };
    /// println!("{}", properties.limits.min_storage_buffer_offset_alignment);
    /// # Ok::<(), dlbridge_vulkan::Error>(())
    /// ```
    pub fn parts(&self) -> &DeviceParts {
        &self.0.parts
    }

    /// The queue, to submit to or to wait for. Vulkan wants one thread at a time there: copies wait until the guard is
    /// dropped.
    /// Whoever holds it and makes a copy waits for ever.
    ///
    /// ```no_run
    /// # let device = dlbridge_vulkan::Device::new(0)?;
    /// // SAFETY: the queue lives, and nobody else uses it now.
    /// unsafe { device.ash().queue_wait_idle(*device.queue()) }?;
    /// # Ok::<(), dlbridge_vulkan::Error>(())
    /// ```
    pub fn queue(&self) -> Queue<'_> {
        let held = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        Queue { queue: self.0.parts.queue, _held: held }
    }

    /// The first type of memory among those of a mask that has some properties.
    pub(crate) fn memory_type(&self, mask: u32, wanted: vk::MemoryPropertyFlags) -> Option<u32> {
        let types = (0_u32..).zip(&self.0.memory_types);
        let mut fitting = types.filter(|(index, kind)| {
            mask & (1 << index) != 0 && kind.property_flags.contains(wanted)
        });
        fitting.next().map(|(index, _)| index)
    }

    /// The buffers of tensors that were made with this device and live.
    fn buffers(&self) -> MutexGuard<'_, HashMap<vk::Buffer, Weak<Buffer>>> {
        self.0.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The buffer with a handle, if this device has made it.
    pub(crate) fn known(&self, handle: vk::Buffer) -> Option<Arc<Buffer>> {
        self.buffers().get(&handle).and_then(Weak::upgrade)
    }

    pub(crate) fn remember(&self, buffer: &Arc<Buffer>) {
        self.buffers().insert(buffer.handle(), Arc::downgrade(buffer));
    }

    /// Forgets a buffer, and not another that has the same handle: Vulkan does not promise that there is none.
    pub(crate) fn forget(&self, buffer: &Buffer) {
        let mut buffers = self.buffers();
        if buffers.get(&buffer.handle()).is_some_and(|known| ptr::eq(known.as_ptr(), buffer)) {
            buffers.remove(&buffer.handle());
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("id", &self.id())
            .field("queue_family", &self.0.parts.queue_family)
            .finish_non_exhaustive()
    }
}

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

#[cfg(test)]
mod tests {
    use std::env;
    use std::sync::Arc;

    use super::{Buffer, Device};

    /// No driver is known whose handles are not unique, so the table is told that they are not.
    #[test]
    fn a_buffer_that_goes_is_forgotten_and_no_other() {
        let device = match Device::new(0) {
            Ok(device) => device,
            Err(reason) => {
                assert!(env::var_os("DLBRIDGE_REQUIRE").is_none(), "Vulkan is required: {reason}");
                return println!("skipped: no Vulkan: {reason}");
            }
        };
        let live = Buffer::storage(&device, 4).unwrap();
        let staging = Buffer::to_copy_from(&device, 4).unwrap();
        let handle = staging.handle();
        assert!(device.known(handle).is_none(), "it is no tensor's");
        device.buffers().insert(handle, Arc::downgrade(&live));
        drop(staging);
        assert!(device.known(handle).is_some());
        let handle = live.handle();
        drop(live);
        assert!(device.known(handle).is_none());
        assert!(!device.buffers().contains_key(&handle), "not even that it was there");
    }
}
