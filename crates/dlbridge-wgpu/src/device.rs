//! Whether a device and a queue belong together.

use wgpu::{Device, Queue};

use crate::Result;

/// Refuses a queue of another device, where wgpu tells.
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(crate) fn check_queue(device: &Device, queue: &Queue) -> Result<()> {
    use wgpu::hal::api::Vulkan;

    use crate::Error;

    // SAFETY: the handles are compared, and nothing is done to what they stand for.
    let handles = unsafe { (device.as_hal::<Vulkan>(), queue.as_hal::<Vulkan>()) };
    match handles {
        (None, None) => Ok(()),
        (Some(device), Some(queue))
            if device.raw_device().handle() == queue.raw_device().handle() =>
        {
            Ok(())
        }
        _ => Err(Error::OtherDevice),
    }
}

/// On other platforms wgpu itself reports it, to the handler of the queue's device.
#[cfg(not(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(crate) fn check_queue(_: &Device, _: &Queue) -> Result<()> {
    Ok(())
}
