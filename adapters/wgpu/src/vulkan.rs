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
    /// Returns a tensor on `vulkan` over the memory of a tensor on `webgpu`: its data pointer is the `VkBuffer`, and
    /// the layout is the same. It keeps the buffer.
    ///
    /// The function waits for all submissions to the queue. wgpu clears memory on first use. To prevent that it clears
    /// a consumer's writes, the function uses the memory first: the device reads the whole buffer once.
    ///
    /// # Errors
    /// - The errors of [`TensorExt::to_buffer_for_reading`](crate::TensorExt::to_buffer_for_reading).
    /// - [`Error::NotVulkan`] if the device uses another backend.
    /// - [`Error::OtherDevice`] if the queue belongs to another device, or this crate made the buffer with another
    ///   device.
    /// - [`Error::Destroyed`]; [`Error::Lost`] if the device was destroyed; [`Error::Wgpu`] for other errors of wgpu.
    ///
    /// # Panics
    /// wgpu panics if the device is lost during the wait.
    ///
    /// # Safety
    /// The device and the queue must be those of the buffer. The function cannot check this for a buffer from
    /// [`BufferExt`](crate::BufferExt): wgpu mistakes a device of another [`Instance`](wgpu::Instance) for its own, and
    /// the returned handle is then one of another `VkDevice`, of memory that may be uninitialised.
    ///
    /// Until the tensor, and everything that shares its memory, is dropped:
    /// - the program must not call [`wgpu::Buffer::destroy`] or [`wgpu::Device::destroy`], which would free the memory;
    /// - wgpu must not lose the device, or the handle must not be used afterwards. wgpu loses the device not only when
    ///   the hardware fails, but also when a call on any thread runs out of memory. It then destroys all buffers of the
    ///   device, including this one, while the `VkDevice` lives on. [`wgpu::Device::set_device_lost_callback`] reports
    ///   the loss, and the program must stop the consumer before it calls wgpu again;
    /// - commands of wgpu and of the consumer that use the buffer must be ordered, and must not run at the same time,
    ///   unless both only read.
    ///
    /// ```no_run
    /// use dlbridge_wgpu::{Result, VulkanExt};
    ///
    /// fn export(
    ///     tensor: &dlbridge::Tensor,
    ///     device: &wgpu::Device,
    ///     queue: &wgpu::Queue,
    /// ) -> Result<dlbridge::Tensor> {
    ///     // SAFETY: the buffer is of this device, wgpu has finished with it, and the program neither destroys nor
    ///     // loses either.
    ///     unsafe { tensor.to_vulkan(device, queue) }
    /// }
    /// ```
    unsafe fn to_vulkan(&self, device: &Device, queue: &Queue) -> Result<Tensor>;

    /// Returns a tensor on `webgpu` over the memory of a tensor on `vulkan`, with the same layout, over a buffer of
    /// `size` bytes.
    ///
    /// The original tensor is dropped, which calls its deleter, when the device has finished with the buffer and the
    /// last handle to it is dropped or it was destroyed. wgpu notices that only within a call, so the program must poll
    /// or use the device. wgpu holds locks during that call, so the deleter runs soon afterwards, on a thread of this
    /// crate, which calls one deleter after the other. Deleters may use wgpu.
    /// [`wait_for_deleters`](crate::wait_for_deleters) waits for them.
    ///
    /// # Errors
    /// [`Error::OtherDeviceType`] for a tensor on another kind of device; [`Error::Empty`] for a tensor without
    /// elements; an error for a read-only tensor, because wgpu cannot guarantee read-only access; [`Error::NotVulkan`]
    /// if the device uses another backend; [`Error::OtherDevice`] if the tensor is on another physical device;
    /// [`Error::UnevenSize`]; [`Error::TooSmall`]; [`Error::Thread`]; [`Error::Wgpu`] for errors of wgpu. The tensor is
    /// dropped, in the last case on that thread.
    ///
    /// # Safety
    /// - The tensor's data is a `VkBuffer` of this device's `VkDevice`, of at least `size` bytes, all of them bound to
    ///   memory and initialised, created with the usages `STORAGE_BUFFER`, `TRANSFER_SRC` and `TRANSFER_DST`, for the
    ///   queue family of wgpu's queue. This holds until the tensor is dropped. The tensor itself keeps what its deleter
    ///   needs, for example the `VkDevice`: wgpu's own handles may be gone by then.
    /// - The program does not end while the deleter runs, if the deleter uses a driver, which may be torn down by then:
    ///   the program calls [`wait_for_deleters`](crate::wait_for_deleters) first.
    /// - The producer's writes have finished, and are available to other commands.
    /// - Until the tensor is dropped, other code's commands on those bytes and wgpu's are ordered, and do not run at
    ///   the same time, unless both only read.
    ///
    /// ```no_run
    /// use dlbridge_wgpu::{Result, TensorExt, VulkanExt};
    ///
    /// fn import(tensor: dlbridge::Tensor, device: &wgpu::Device) -> Result<wgpu::Buffer> {
    ///     // SAFETY: the producer received this program's `VkDevice`, and documents that it makes 4096-byte buffers.
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
        // SAFETY: the owner keeps the buffer, and the caller guarantees not to destroy it; wgpu has initialised all of
        // it, and `buffer::bytes` found the elements within.
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
        // The elements fit, so the size is not zero.
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
        // wgpu calls this while it holds locks.
        let done = Box::new(deleter::later(self)?);
        // SAFETY: the caller guarantees that the buffer lives until the tensor is dropped, and the callback drops the
        // tensor when wgpu has finished with it.
        let adopted = unsafe { vulkan::Buffer::from_raw_externally_owned(handle, done) };
        let memory = wait::checked(device, || {
            // SAFETY: the caller guarantees a buffer of this `VkDevice`, initialised, of at least this size, and for
            // these usages. `buffer::bytes` found an element within the size, so the size is not zero.
            Ok(unsafe { device.create_buffer_from_hal::<Vulkan>(adopted, &descriptor) })
        })?;
        buffer::over(Memory::new(memory, Some(device)), parts, &shape, Some(&strides))
    }
}

/// Returns the `VkBuffer` of a buffer on the Vulkan backend.
fn handle(memory: &wgpu::Buffer) -> Result<*mut std::ffi::c_void> {
    // SAFETY: the code only reads the handle.
    let memory = unsafe { memory.as_hal::<Vulkan>() }.ok_or(Error::Destroyed)?;
    // SAFETY: the code does not destroy the handle; `to_vulkan` passes the caller's obligations on.
    let handle = unsafe { memory.raw_handle() };
    Ok(std::ptr::without_provenance_mut(handle.as_raw() as usize))
}

/// Returns the device of a tensor on `vulkan`: the position of the physical device in the instance's list.
fn of(device: &Device) -> Result<TensorDevice> {
    // SAFETY: the code only queries the device.
    let device = unsafe { device.as_hal::<Vulkan>() }.ok_or(Error::NotVulkan)?;
    let instance = device.shared_instance().raw_instance();
    // SAFETY: the device keeps its instance.
    let listed = unsafe { instance.enumerate_physical_devices() };
    let listed = listed.map_err(|error| Error::Wait(error.into()))?;
    let place = listed.iter().position(|listed| *listed == device.raw_physical_device());
    let place = place.and_then(|place| i32::try_from(place).ok()).ok_or(Error::OtherDevice)?;
    Ok(TensorDevice::new(DeviceType::VULKAN, place))
}

/// Waits for all submissions, after a read of the whole buffer, which makes wgpu clear memory that was never written.
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
