//! A logical device, its queue, and the buffers made with it.

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

/// A Vulkan logical device with one of its queues, reference-counted: tensors made with it keep it alive.
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
    /// Held while the queue is used.
    queue: Mutex<()>,
    memory_types: Vec<vk::MemoryType>,
    buffers: Mutex<HashMap<vk::Buffer, Weak<Buffer>>>,
    _owner: Box<dyn Any + Send + Sync>,
}

/// The queue of a [`Device`], locked for its holder.
///
/// ```no_run
/// use ash::vk;
/// use dlbridge_vulkan::Device;
///
/// fn submit(device: &Device, commands: vk::CommandBuffer, fence: vk::Fence) -> ash::prelude::VkResult<()> {
///     let commands = [commands];
///     let work = [vk::SubmitInfo::default().command_buffers(&commands)];
///     let queue = device.queue();
///     // SAFETY: commands and fence belong to this device, and the caller waits for the fence before it drops
///     // anything that they use.
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
    /// Opens a physical device by its number, its position in `vkEnumeratePhysicalDevices`. The logical device has
    /// Vulkan 1.1, or the loader's version if lower, no features or extensions, and the first queue that runs compute
    /// shaders.
    ///
    /// # Errors
    /// [`Error::NoLoader`], [`Error::NoDevice`], [`Error::NoQueue`]; errors of Vulkan, such as
    /// `ERROR_INCOMPATIBLE_DRIVER` if the machine has a loader and no driver.
    ///
    /// ```no_run
    /// let device = dlbridge_vulkan::Device::new(0)?;
    /// # Ok::<(), dlbridge_vulkan::Error>(())
    /// ```
    pub fn new(id: i32) -> Result<Self> {
        let (owner, parts) = open::open(id)?;
        // SAFETY: `open` has just made all parts, and the owner destroys them when it is dropped.
        unsafe { Self::from_parts(owner, parts) }
    }

    /// Makes a device from Vulkan objects that the program already has, and an owner that keeps them.
    ///
    /// # Errors
    /// [`Error::UnlistedDevice`] if the physical device is not one of the instance; errors of Vulkan. The owner is
    /// dropped.
    ///
    /// # Safety
    /// - The parts belong together: each was made from the one before it, and the queue is of the family.
    /// - They live until the owner is dropped, which may be on any thread.
    /// - All code holds [`Device::queue`] while it uses the queue, and no other `Device` uses it. This covers
    ///   submitting, binding sparse memory, presenting, and waiting for the queue (`vkQueueWaitIdle`) or for the device
    ///   (`vkDeviceWaitIdle`). [`Device::ash`] lists further conditions for its callers.
    /// - The queue runs copies: its family has the transfer, compute or graphics flag.
    ///
    /// ```no_run
    /// use dlbridge_vulkan::{Device, DeviceParts, Result};
    ///
    /// fn adopt(owner: std::sync::Arc<Engine>, parts: DeviceParts) -> Result<Device> {
    ///     // SAFETY: the engine keeps all parts, and uses the queue only while it holds `Device::queue`.
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
        // SAFETY: the position above shows that the instance lists the physical device.
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

    /// Returns the number of the physical device, which is the id of the tensors' device.
    ///
    /// ```no_run
    /// # let device = dlbridge_vulkan::Device::new(0)?;
    /// assert_eq!(device.id(), 0);
    /// # Ok::<(), dlbridge_vulkan::Error>(())
    /// ```
    pub fn id(&self) -> i32 {
        self.0.id
    }

    /// Returns the logical device. ash's functions on it are unsafe, and their caller must also ensure:
    /// - The program destroys all objects that it makes from the device before the last `Device` and the last tensor
    ///   are dropped.
    /// - It uses the [queue](Device::queue) only while it holds it, and waits for the whole device (`vkDeviceWaitIdle`)
    ///   only then.
    /// - A copy waits for the commands in the device's queue. While a copy may run, commands of other queues do not
    ///   write the bytes that it copies; their earlier writes have finished, and are available.
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

    /// Returns the Vulkan objects of the device. Use the queue only through [`Device::queue`].
    ///
    /// ```no_run
    /// # let device = dlbridge_vulkan::Device::new(0)?;
    /// let parts = device.parts();
    /// // SAFETY: instance and physical device live.
    /// let properties = unsafe { parts.instance.get_physical_device_properties(parts.physical_device) };
    /// println!("{}", properties.limits.min_storage_buffer_offset_alignment);
    /// # Ok::<(), dlbridge_vulkan::Error>(())
    /// ```
    pub fn parts(&self) -> &DeviceParts {
        &self.0.parts
    }

    /// Locks the queue, to submit to it or to wait for it. Vulkan allows one thread at a time, so copies wait until the
    /// guard is dropped. A thread that makes a copy while it holds the guard deadlocks.
    ///
    /// ```no_run
    /// # let device = dlbridge_vulkan::Device::new(0)?;
    /// // SAFETY: the queue lives, and the guard locks it.
    /// unsafe { device.ash().queue_wait_idle(*device.queue()) }?;
    /// # Ok::<(), dlbridge_vulkan::Error>(())
    /// ```
    pub fn queue(&self) -> Queue<'_> {
        let held = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        Queue { queue: self.0.parts.queue, _held: held }
    }

    /// Returns the first memory type in a mask that has the given properties.
    pub(crate) fn memory_type(&self, mask: u32, wanted: vk::MemoryPropertyFlags) -> Option<u32> {
        let types = (0_u32..).zip(&self.0.memory_types);
        let mut fitting = types.filter(|(index, kind)| {
            mask & (1 << index) != 0 && kind.property_flags.contains(wanted)
        });
        fitting.next().map(|(index, _)| index)
    }

    /// The live buffers of tensors made with this device.
    fn buffers(&self) -> MutexGuard<'_, HashMap<vk::Buffer, Weak<Buffer>>> {
        self.0.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the buffer with a handle, if this device made it.
    pub(crate) fn known(&self, handle: vk::Buffer) -> Option<Arc<Buffer>> {
        self.buffers().get(&handle).and_then(Weak::upgrade)
    }

    pub(crate) fn remember(&self, buffer: &Arc<Buffer>) {
        self.buffers().insert(buffer.handle(), Arc::downgrade(buffer));
    }

    /// Removes a buffer from the table, but keeps another with the same handle, which Vulkan does not rule out.
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

/// A `VkBuffer` and its memory, destroyed when dropped; it keeps the device alive.
pub(crate) struct Buffer {
    device: Device,
    handle: vk::Buffer,
    memory: vk::DeviceMemory,
    size: u64,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // First, because the next buffer may get the same handle. Another live buffer with this handle stays in the
        // table.
        self.device.forget(self);
        // SAFETY: both were made here from this device, which lives; memory may be NULL, which Vulkan ignores. No
        // commands use the buffer: this crate has waited for its own, and `BufferRef::handle` obliges other submitters
        // to wait for theirs.
        unsafe {
            self.device.ash().destroy_buffer(self.handle, None);
            self.device.ash().free_memory(self.memory, None);
        }
    }
}

impl Buffer {
    /// Makes a buffer for `bytes` bytes of tensor elements, rounded up to whole words.
    pub(crate) fn storage(device: &Device, bytes: usize) -> Result<Arc<Self>> {
        let usage = Usage::STORAGE_BUFFER | Usage::TRANSFER_SRC | Usage::TRANSFER_DST;
        // Vulkan does not allow empty buffers.
        let size = (bytes as u64).max(1).next_multiple_of(4);
        let wanted = [Properties::DEVICE_LOCAL, Properties::empty()];
        let buffer = Arc::new(Self::new(device, size, usage, &wanted)?);
        device.remember(&buffer);
        Ok(buffer)
    }

    /// Makes a buffer that the host fills, for a copy to the device.
    pub(crate) fn to_copy_from(device: &Device, size: u64) -> Result<Self> {
        let coherent = Properties::HOST_VISIBLE | Properties::HOST_COHERENT;
        Self::new(device, size, Usage::TRANSFER_SRC, &[coherent])
    }

    /// Makes a buffer that the host reads after a copy from the device.
    pub(crate) fn to_copy_into(device: &Device, size: u64) -> Result<Self> {
        let coherent = Properties::HOST_VISIBLE | Properties::HOST_COHERENT;
        let wanted = [coherent | Properties::HOST_CACHED, coherent];
        Self::new(device, size, Usage::TRANSFER_DST, &wanted)
    }

    /// Makes a buffer with memory of the first properties in `wanted` that the device has.
    fn new(device: &Device, size: u64, usage: Usage, wanted: &[Properties]) -> Result<Self> {
        let ash = device.ash();
        let info = vk::BufferCreateInfo::default().size(size).usage(usage);
        // SAFETY: the size is not 0, and every device knows the usages.
        let handle = unsafe { ash.create_buffer(&info, None) }?;
        let memory = vk::DeviceMemory::null();
        let mut buffer = Self { device: device.clone(), handle, memory, size };
        // SAFETY: the buffer was made above.
        let needs = unsafe { ash.get_buffer_memory_requirements(handle) };
        let kind = wanted.iter().find_map(|&p| device.memory_type(needs.memory_type_bits, p));
        let kind = kind.ok_or(vk::Result::ERROR_FEATURE_NOT_PRESENT)?;
        let info =
            vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(kind);
        // SAFETY: the allocation has the size that the buffer needs and a type that it allows, and is bound once.
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

    /// Writes bytes to the beginning of host-visible memory, and zeros after them.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.mapped(|target| {
            let (target, rest) = target.split_at_mut(bytes.len());
            target.copy_from_slice(bytes);
            rest.fill(0);
        })
    }

    /// Reads all bytes of host-visible memory.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.mapped(|source| bytes.copy_from_slice(source))
    }

    /// Maps the memory, which is coherent, and passes it to `access`.
    fn mapped(&mut self, access: impl FnOnce(&mut [u8])) -> Result<()> {
        let (ash, flags) = (self.device.ash(), vk::MemoryMapFlags::empty());
        // SAFETY: `to_copy_from` and `to_copy_into` made host-visible memory, and `&mut self` excludes a second
        // mapping.
        let first = unsafe { ash.map_memory(self.memory, 0, self.size, flags) }?;
        // SAFETY: `size` bytes were mapped above; no commands use them, because each submission was awaited.
        access(unsafe { slice::from_raw_parts_mut(first.cast(), self.size as usize) });
        // SAFETY: the memory was mapped above, and the slice is no longer used.
        unsafe { ash.unmap_memory(self.memory) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::sync::Arc;

    use super::{Buffer, Device};

    /// No known driver has duplicate handles, so the test puts one into the table.
    #[test]
    fn dropped_buffer_is_forgotten_alone() {
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
        assert!(device.known(handle).is_none(), "a staging buffer is not in the table");
        device.buffers().insert(handle, Arc::downgrade(&live));
        drop(staging);
        assert!(device.known(handle).is_some());
        let handle = live.handle();
        drop(live);
        assert!(device.known(handle).is_none());
        assert!(!device.buffers().contains_key(&handle), "the entry is removed");
    }
}
