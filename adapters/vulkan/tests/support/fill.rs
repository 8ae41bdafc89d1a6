//! Commands of the tests that write a buffer.

use ash::vk;
use dlbridge_vulkan::{Device, Queue};

/// The objects of a submission, destroyed when the device has finished.
pub(crate) struct Filling<'a> {
    device: &'a Device,
    pool: vk::CommandPool,
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        // SAFETY: the objects were made from the device; the code holds the queue, and waits until it is empty.
        unsafe {
            self.device.ash().queue_wait_idle(*self.device.queue()).unwrap();
            self.device.ash().destroy_command_pool(self.pool, None);
        }
    }
}

/// Submits fills of a buffer with one number after another, in this order. The buffer must outlive the result.
pub(crate) fn fill<'a>(
    device: &'a Device,
    queue: &Queue<'_>,
    buffer: vk::Buffer,
    values: impl IntoIterator<Item = u32>,
) -> Filling<'a> {
    let ash = device.ash();
    let pool = vk::CommandPoolCreateInfo::default().queue_family_index(device.parts().queue_family);
    let writes = vk::AccessFlags::TRANSFER_WRITE;
    let order = [vk::MemoryBarrier::default().src_access_mask(writes).dst_access_mask(writes)];
    let (stage, none) = (vk::PipelineStageFlags::TRANSFER, vk::DependencyFlags::empty());
    // SAFETY: the fills are within the buffer, which lives; the caller holds the queue.
    unsafe {
        let pool = ash.create_command_pool(&pool, None).unwrap();
        let info =
            vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        let commands = ash.allocate_command_buffers(&info).unwrap();
        ash.begin_command_buffer(commands[0], &vk::CommandBufferBeginInfo::default()).unwrap();
        for (i, value) in values.into_iter().enumerate() {
            if i > 0 {
                ash.cmd_pipeline_barrier(commands[0], stage, stage, none, &order, &[], &[]);
            }
            ash.cmd_fill_buffer(commands[0], buffer, 0, vk::WHOLE_SIZE, value);
        }
        ash.end_command_buffer(commands[0]).unwrap();
        let work = [vk::SubmitInfo::default().command_buffers(&commands)];
        ash.queue_submit(**queue, &work, vk::Fence::null()).unwrap();
        Filling { device, pool }
    }
}
