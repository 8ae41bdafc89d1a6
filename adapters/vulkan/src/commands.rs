//! Commands that copy bytes from buffer to buffer.

use std::thread;

use ash::vk;

use crate::{Device, Result};

/// A command buffer's pool and the fence that says when it is done.
struct Commands<'a> {
    device: &'a Device,
    pool: vk::CommandPool,
    fence: vk::Fence,
}

impl Drop for Commands<'_> {
    fn drop(&mut self) {
        // SAFETY: made from this device, or NULL, which is nothing; what was submitted has been waited for.
        unsafe {
            self.device.ash().destroy_fence(self.fence, None);
            self.device.ash().destroy_command_pool(self.pool, None);
        }
    }
}

/// Copies bytes from one buffer to another, behind all commands that the queue has, and waits until that is done.
/// What was copied can then be read by the host and by later commands.
///
/// # Safety
/// Two buffers of this device, with these bytes, and for copies from the one and to the other.
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
    // SAFETY: the pool was made above, and nobody else has it.
    let buffer = unsafe { ash.allocate_command_buffers(&info) }?[0];
    // SAFETY: a new command buffer of the pool above. The caller guarantees two buffers of this device that have the region.
    unsafe { record(ash, buffer, (from, to), region) }?;
    let (buffers, queue) = ([buffer], device.queue());
    let work = [vk::SubmitInfo::default().command_buffers(&buffers)];
    // SAFETY: recorded above, for the queue's family; the queue is held.
    unsafe { ash.queue_submit(*queue, &work, commands.fence) }?;
    drop(queue);
    commands.wait()
}

impl Commands<'_> {
    /// Waits until what was submitted is done, whatever comes: it has the buffers.
    fn wait(self) -> Result<()> {
        loop {
            // SAFETY: made from this device, and submitted.
            match unsafe { self.device.ash().wait_for_fences(&[self.fence], true, u64::MAX) } {
                Ok(()) => return Ok(()),
                // What a lost device has not done, it does not do any more.
                Err(lost @ vk::Result::ERROR_DEVICE_LOST) => return Err(lost.into()),
                Err(_) => thread::yield_now(),
            }
        }
    }
}

/// # Safety
/// A command buffer that is new, and what [`copy`] asks.
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
    // SAFETY: the caller guarantees a new command buffer, which nothing else records, and two buffers of its device that have
    // the region and are for copies; barriers and the copy are commands of every queue that runs copies.
    unsafe {
        ash.begin_command_buffer(commands, &begin)?;
        ash.cmd_pipeline_barrier(commands, all, copies, flags, &before, &[], &[]);
        ash.cmd_copy_buffer(commands, from, to, &[region]);
        ash.cmd_pipeline_barrier(commands, copies, users, flags, &after, &[], &[]);
        ash.end_command_buffer(commands)?;
    }
    Ok(())
}
