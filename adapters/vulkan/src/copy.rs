//! Copies between the host and a buffer, and the commands that copy bytes from buffer to buffer.

use std::thread;

use ash::vk;
use dlbridge::{Tensor, TensorRef, device_copy};

use crate::buffer::{BufferParts, BufferRef, from_buffer};
use crate::device::{Buffer, Device};
use crate::{Error, Result};

/// Copies a host tensor into a new buffer, in C order. Returns after the copy; commands that are submitted later see
/// the data.
///
/// The buffer has its own memory, device-local if the device has such memory. Its size is a multiple of 4, so a shader
/// that reads one-byte elements as four-byte words may read the last word.
///
/// The function calls `vkAllocateMemory` once for each tensor, and once more during each copy in either direction.
/// Drivers limit the number of allocations at a time (`maxMemoryAllocationCount`); some allow only 4096. A program with
/// more tensors slices a large one, or passes buffers of its own allocator to [`from_buffer`].
///
/// # Errors
/// An error for a tensor that the CPU cannot read; errors of Vulkan, such as `ERROR_TOO_MANY_OBJECTS` at that limit.
///
/// ```no_run
/// use dlbridge_vulkan::{Device, Result, to_device};
///
/// fn ramp(device: &Device) -> Result<dlbridge::Tensor> {
///     to_device(&[0.0_f32, 1.0, 2.0], device)
/// }
/// ```
pub fn to_device<'a>(source: impl Into<TensorRef<'a>>, device: &Device) -> Result<Tensor> {
    device_copy::in_c_order(source.into(), |source| {
        let bytes = source.as_bytes()?;
        let buffer = Buffer::storage(device, bytes.len())?;
        let (handle, size) = (buffer.handle(), buffer.size());
        let mut staging = Buffer::to_copy_from(device, size)?;
        staging.write(bytes)?;
        let region = vk::BufferCopy { size, ..Default::default() };
        // SAFETY: both buffers were made with this device, with this size and for this use.
        unsafe { copy(device, staging.handle(), handle, region) }?;
        let shape = device_copy::extents(&source);
        let parts = BufferParts {
            id: device.id(),
            subbyte_padded: source.is_subbyte_padded(),
            ..BufferParts::new(handle, size, source.dtype())
        };
        // SAFETY: the owner keeps the buffer, its memory and the device; the copy has finished.
        unsafe { from_buffer(buffer, parts, shape) }
    })
}

/// Copies a tensor whose buffer was made with this device.
pub(crate) fn to_host(tensor: &Tensor, device: &Device) -> Result<Tensor> {
    if tensor.is_empty() {
        return device_copy::to_host(tensor, |_| Ok(()));
    }
    let source = BufferRef::of(tensor)?;
    let known = device.known(source.handle()).ok_or(Error::OtherDevice)?;
    if tensor.device().id() != device.id() {
        return Err(Error::OtherDevice);
    }
    source.check_within(known.size())?;
    // SAFETY: a buffer with this handle was made with this device; `known` keeps it alive; `check_within` compared its
    // size.
    unsafe { fetch(tensor, source, device) }
}

/// Copies a tensor whose buffer any code may have made.
///
/// # Safety
/// The contract of [`TensorExt::to_host_unchecked`](crate::TensorExt::to_host_unchecked).
pub(crate) unsafe fn to_host_unchecked(tensor: &Tensor, device: &Device) -> Result<Tensor> {
    if tensor.is_empty() {
        return device_copy::to_host(tensor, |_| Ok(()));
    }
    // SAFETY: the caller fulfils the contract of `TensorExt::to_host_unchecked`, which includes that of `fetch`; the
    // tensor has elements, because an empty one has returned.
    unsafe { fetch(tensor, BufferRef::of(tensor)?, device) }
}

/// # Safety
/// The buffer must belong to this device, allow copies from it, and have the tensor's elements, at least one.
unsafe fn fetch(tensor: &Tensor, source: BufferRef<'_>, device: &Device) -> Result<Tensor> {
    let range = source.bytes();
    let size = range.end - range.start;
    let mut staging = Buffer::to_copy_into(device, size)?;
    let region = vk::BufferCopy { src_offset: range.start, dst_offset: 0, size };
    // SAFETY: the caller guarantees a buffer of this device that has the bytes and allows copies from it. The target
    // was made above, with that size.
    unsafe { copy(device, source.handle(), staging.handle(), region) }?;
    device_copy::to_host(tensor, |bytes| staging.read(bytes))
}

/// The pool of a command buffer, and the fence that signals its end.
struct Commands<'a> {
    device: &'a Device,
    pool: vk::CommandPool,
    fence: vk::Fence,
}

impl Drop for Commands<'_> {
    fn drop(&mut self) {
        // SAFETY: both were made from this device, or are NULL, which Vulkan ignores; submitted commands have been
        // awaited.
        unsafe {
            self.device.ash().destroy_fence(self.fence, None);
            self.device.ash().destroy_command_pool(self.pool, None);
        }
    }
}

/// Copies bytes between two buffers, after all commands that the queue has, and waits for the copy. The host and later
/// commands can then read the data.
///
/// # Safety
/// Both buffers must belong to this device and have the region; `from` must allow copies from it, and `to` copies to
/// it.
pub(crate) unsafe fn copy(
    device: &Device,
    from: vk::Buffer,
    to: vk::Buffer,
    region: vk::BufferCopy,
) -> Result<()> {
    let ash = device.ash();
    let (pool, fence) = (vk::CommandPool::null(), vk::Fence::null());
    let mut commands = Commands { device, pool, fence };
    let pool = vk::CommandPoolCreateInfo::default()
        .flags(vk::CommandPoolCreateFlags::TRANSIENT)
        .queue_family_index(device.parts().queue_family);
    // SAFETY: the device lives, and has queues of this family.
    unsafe {
        commands.fence = ash.create_fence(&vk::FenceCreateInfo::default(), None)?;
        commands.pool = ash.create_command_pool(&pool, None)?;
    }
    let info = vk::CommandBufferAllocateInfo::default()
        .command_pool(commands.pool)
        .command_buffer_count(1);
    // SAFETY: the pool was made above, and nothing else uses it.
    let buffer = unsafe { ash.allocate_command_buffers(&info) }?[0];
    // SAFETY: a new command buffer of the pool above. The caller guarantees two buffers of this device that have the
    // region.
    unsafe { record(ash, buffer, (from, to), region) }?;
    let (buffers, queue) = ([buffer], device.queue());
    let work = [vk::SubmitInfo::default().command_buffers(&buffers)];
    // SAFETY: the commands were recorded above, for the queue's family; `queue` holds the lock.
    unsafe { ash.queue_submit(*queue, &work, commands.fence) }?;
    drop(queue);
    commands.wait()
}

impl Commands<'_> {
    /// Waits until the submitted commands have finished, also after errors, because they use the buffers.
    fn wait(self) -> Result<()> {
        loop {
            // SAFETY: the fence was made from this device, and submitted.
            match unsafe { self.device.ash().wait_for_fences(&[self.fence], true, u64::MAX) } {
                Ok(()) => return Ok(()),
                // A lost device runs no more commands.
                Err(lost @ vk::Result::ERROR_DEVICE_LOST) => return Err(lost.into()),
                Err(_) => thread::yield_now(),
            }
        }
    }
}

/// # Safety
/// `commands` must be a new command buffer; the other conditions are those of [`copy`].
unsafe fn record(
    ash: &ash::Device,
    commands: vk::CommandBuffer,
    (from, to): (vk::Buffer, vk::Buffer),
    region: vk::BufferCopy,
) -> Result<()> {
    let begin =
        vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
    let any = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
    let copying = vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE;
    let before = [vk::MemoryBarrier::default().src_access_mask(any).dst_access_mask(copying)];
    let after = [vk::MemoryBarrier::default().src_access_mask(copying).dst_access_mask(any)];
    let (all, copies) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::PipelineStageFlags::TRANSFER);
    let users = all | vk::PipelineStageFlags::HOST;
    let flags = vk::DependencyFlags::empty();
    // SAFETY: the caller guarantees a new command buffer that nothing else records, and two buffers of its device that
    // have the region and allow the copy; every queue that runs copies supports the copy and the barriers.
    unsafe {
        ash.begin_command_buffer(commands, &begin)?;
        ash.cmd_pipeline_barrier(commands, all, copies, flags, &before, &[], &[]);
        ash.cmd_copy_buffer(commands, from, to, &[region]);
        ash.cmd_pipeline_barrier(commands, copies, users, flags, &after, &[], &[]);
        ash.end_command_buffer(commands)?;
    }
    Ok(())
}
