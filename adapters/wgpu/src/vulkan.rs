//! Tensors on `webgpu` as tensors on `vulkan`, and back.

use ash::vk;
use ash::vk::Handle;
use dlbridge::{Access, Device as TensorDevice, DeviceType, RawParts, Tensor};
use wgpu::hal::{api::Vulkan, vulkan};
use wgpu::{BufferDescriptor, BufferUsages, Device, Queue};

use crate::held::Memory;
use crate::sealed::Sealed;
use crate::{Error, Result, TENSOR_USAGES, buffer, deleter, device, wait};

/// Tensors between wgpu and other libraries that use the same `VkDevice`.
pub trait VulkanExt: Sealed {
    /// A tensor on `vulkan` over the memory of one on `webgpu`: its data is the `VkBuffer`, and the layout is the same. It
    /// keeps the buffer.
    ///
    /// All that was submitted to the queue is done when this returns. wgpu clears memory when it is first used, which it
    /// is here, so that it does not clear what a consumer wrote: the whole buffer is read once on the device.
    ///
    /// # Errors
    /// Those of [`TensorExt::to_buffer_for_reading`](crate::TensorExt::to_buffer_for_reading); [`Error::NotVulkan`] for a
    /// device of another backend; [`Error::OtherDevice`] for a queue of another device, and for another device than that of a
    /// buffer that this crate made; [`Error::Destroyed`]; [`Error::Lost`] for a device that was destroyed; [`Error::Wgpu`]
    /// for what else wgpu says.
    ///
    /// # Panics
    /// wgpu panics when the device is lost while it is waited for.
    ///
    /// # Safety
    /// The device and the queue are those of the buffer. Of a buffer that came by [`BufferExt`](crate::BufferExt) nobody can
    /// ask that: wgpu takes a device of another [`Instance`](wgpu::Instance) for its own, and the handle that comes out is
    /// of another `VkDevice` and of memory that may be uninitialised.
    ///
    /// Until the tensor, and all that is made of it without a copy, is gone:
    /// - neither [`wgpu::Buffer::destroy`] nor [`wgpu::Device::destroy`] is called, which would free the memory;
    /// - wgpu does not lose the device, or the handle is not used after that. wgpu loses it not only with the hardware, but
    ///   also when some call, of any thread, runs out of memory. It then destroys all buffers of the device, this one too,
    ///   while the `VkDevice` lives on: [`wgpu::Device::set_device_lost_callback`] tells, and the consumer has to be stopped
    ///   before wgpu is called again;
    /// - commands of wgpu that use the buffer run neither beside the consumer's nor unordered with them, unless both only read.
    ///
    /// ```no_run
    /// use dlbridge_wgpu::{Result, VulkanExt};
    ///
    /// fn export(
    ///     tensor: &dlbridge::Tensor,
    ///     device: &wgpu::Device,
    ///     queue: &wgpu::Queue,
    /// ) -> Result<dlbridge::Tensor> {
    ///     // SAFETY: of this device, with whose buffer wgpu is done, and which nobody destroys or loses.
    ///     unsafe { tensor.to_vulkan(device, queue) }
    /// }
    /// ```
    unsafe fn to_vulkan(&self, device: &Device, queue: &Queue) -> Result<Tensor>;

    /// A tensor on `webgpu` over the memory of one on `vulkan`, with the same layout, over a buffer of `size` bytes. The
    /// tensor it is made of is dropped, and so its deleter called, when the last of the buffer's handles is gone, or it was
    /// destroyed, and the device is done with it. wgpu notices that within a call, so that the device has to be polled or used
    /// for it, and holds locks meanwhile. So the deleter is called soon after, on a thread of this crate's own, which calls
    /// one after the other, and it may use wgpu. [`wait_for_deleters`](crate::wait_for_deleters)
    /// waits for it.
    ///
    /// # Errors
    /// [`Error::OtherDeviceType`] for a tensor that is somewhere else; [`Error::Empty`] for one that has no memory; an error for
    /// one that must not be written, because wgpu cannot promise it; [`Error::NotVulkan`] for a device of another
    /// backend; [`Error::OtherDevice`] for one of another physical device; [`Error::UnevenSize`]; [`Error::TooSmall`];
    /// [`Error::Thread`]; [`Error::Wgpu`] for what wgpu says. The tensor is dropped, in the last case on that thread.
    ///
    /// # Safety
    /// - The tensor's data is a `VkBuffer` of this device's `VkDevice`, of at least `size` bytes, all of them bound to memory
    ///   and initialised, created with the usages `STORAGE_BUFFER`, `TRANSFER_SRC` and `TRANSFER_DST`, for the queue
    ///   family of wgpu's queue. It stays so until the tensor is dropped. What the deleter needs, the `VkDevice` for instance,
    ///   the tensor keeps itself: wgpu's own handles may be gone by then.
    /// - The program does not end while the deleter runs, if that uses a driver, which may be torn down by then: it calls
    ///   [`wait_for_deleters`](crate::wait_for_deleters) first.
    /// - What the producer has written is done, and made available to other commands.
    /// - Until the tensor is dropped, commands of others that use those bytes run neither beside wgpu's nor unordered with them,
    ///   unless both only read.
    ///
    /// ```no_run
    /// use dlbridge_wgpu::{Result, TensorExt, VulkanExt};
    ///
    /// fn import(tensor: dlbridge::Tensor, device: &wgpu::Device) -> Result<wgpu::Buffer> {
    ///     // SAFETY: the producer was given our `VkDevice`, and said that it creates buffers of 4096 bytes for it.
    ///     unsafe { tensor.into_webgpu(device, 4096) }?.to_buffer()
    /// }
    /// ```
    unsafe fn into_webgpu(self, device: &Device, size: u64) -> Result<Tensor>;
}

impl VulkanExt for Tensor {
    unsafe fn to_vulkan(&self, device: &Device, queue: &Queue) -> Result<Tensor> {
        let memory = buffer::find(self)?;
        buffer::bytes(self, memory.buffer.size())?;
        let place = of(device)?;
        memory.check_device(device)?;
        device::check_queue(device, queue)?;
        let memory = memory.buffer;
        let handle = handle(&memory)?;
        settle(&memory, device, queue)?;
        let parts = RawParts {
            device: place,
            byte_offset: self.byte_offset(),
            access: match self.is_read_only() {
                true => Access::ReadOnly,
                false => Access::Shared,
            },
            subbyte_padded: self.is_subbyte_padded(),
            ..RawParts::new(handle, self.dtype())
        };
        // SAFETY: the owner keeps the buffer, which the caller guarantees not to destroy; wgpu has initialised all of it, and
        // `buffer::bytes` found the elements within.
        let tensor =
            unsafe { Tensor::from_raw_parts(memory, parts, self.shape(), Some(self.strides())) };
        Ok(tensor?)
    }

    unsafe fn into_webgpu(self, device: &Device, size: u64) -> Result<Tensor> {
        buffer::check_device_type(&self, DeviceType::VULKAN)?;
        if self.is_empty() {
            return Err(Error::Empty);
        }
        if self.is_read_only() {
            return Err(dlbridge::Error::ReadOnly.into());
        }
        // So the size is not zero.
        buffer::bytes(&self, size)?;
        buffer::check_size(size)?;
        if of(device)? != self.device() {
            return Err(Error::OtherDevice);
        }
        let (shape, strides) = (self.shape().to_vec(), self.strides().to_vec());
        let parts = RawParts {
            byte_offset: self.byte_offset(),
            subbyte_padded: self.is_subbyte_padded(),
            ..buffer::parts(self.dtype())
        };
        let descriptor =
            BufferDescriptor { label: None, size, usage: TENSOR_USAGES, mapped_at_creation: false };
        let handle = vk::Buffer::from_raw(self.data().addr() as u64);
        // wgpu calls this with locks held.
        let done = Box::new(deleter::later(self)?);
        // SAFETY: the caller guarantees that the buffer lives until the tensor is dropped, which the callback does when wgpu has
        // done with it.
        let adopted = unsafe { vulkan::Buffer::from_raw_externally_owned(handle, done) };
        let memory = wait::checked(device, || {
            // SAFETY: the caller guarantees a buffer of this `VkDevice`, initialised, of at least this size, and for these
            // usages. `buffer::bytes` found an element within the size, so that is not zero.
            Ok(unsafe { device.create_buffer_from_hal::<Vulkan>(adopted, &descriptor) })
        })?;
        buffer::over(Memory::new(memory, Some(device)), parts, &shape, Some(&strides))
    }
}

/// The `VkBuffer` of a buffer on the Vulkan backend.
fn handle(memory: &wgpu::Buffer) -> Result<*mut std::ffi::c_void> {
    // SAFETY: nothing is done to it.
    let memory = unsafe { memory.as_hal::<Vulkan>() }.ok_or(Error::Destroyed)?;
    // SAFETY: nobody destroys the handle: whose it is, is known to who gets it.
    let handle = unsafe { memory.raw_handle() };
    Ok(std::ptr::without_provenance_mut(handle.as_raw() as usize))
}

/// The device of a tensor on `vulkan`: the place of the physical device in the instance's list.
fn of(device: &Device) -> Result<TensorDevice> {
    // SAFETY: it is only asked.
    let device = unsafe { device.as_hal::<Vulkan>() }.ok_or(Error::NotVulkan)?;
    let instance = device.shared_instance().raw_instance();
    // SAFETY: the device keeps its instance.
    let listed = unsafe { instance.enumerate_physical_devices() };
    let listed = listed.map_err(|error| Error::Wait(error.into()))?;
    let place = listed.iter().position(|listed| *listed == device.raw_physical_device());
    let place = place.and_then(|place| i32::try_from(place).ok()).ok_or(Error::OtherDevice)?;
    Ok(TensorDevice::new(DeviceType::VULKAN, place))
}

/// Waits for what was submitted, after a read of the whole buffer, before which wgpu clears what was never written.
fn settle(memory: &wgpu::Buffer, device: &Device, queue: &Queue) -> Result<()> {
    const PIECE: u64 = 1 << 22;
    let size = memory.size();
    let descriptor = BufferDescriptor {
        label: None,
        size: size.min(PIECE),
        usage: BufferUsages::COPY_DST,
        mapped_at_creation: false,
    };
    wait::checked(device, || {
        let target = device.create_buffer(&descriptor);
        let mut encoder = device.create_command_encoder(&Default::default());
        for start in (0..size).step_by(PIECE as usize) {
            let piece = PIECE.min(size - start);
            encoder.copy_buffer_to_buffer(memory, start, &target, 0, piece);
        }
        let submission = queue.submit([encoder.finish()]);
        wait::finish(device, submission)
    })
}
