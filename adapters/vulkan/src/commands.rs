//! Commands that copy bytes from buffer to buffer.

use std::thread;

use ash::vk;

use crate::{Device, Result};

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
