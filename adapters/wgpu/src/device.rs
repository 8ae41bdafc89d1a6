//! Whether devices are the same, and whether a device and a queue belong together.

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

/// Whether two handles are of the same device, as far as wgpu tells. They compare equal if their instances have given them the
/// same number; that Vulkan's handles are the same too says that the instance is one.
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(crate) fn same(one: &Device, other: &Device) -> bool {
    use wgpu::hal::api::Vulkan;

    // SAFETY: the handles are compared, and nothing is done to what they stand for.
    let handles = unsafe { (one.as_hal::<Vulkan>(), other.as_hal::<Vulkan>()) };
    one == other
        && match handles {
            (None, None) => true,
            (Some(one), Some(other)) => one.raw_device().handle() == other.raw_device().handle(),
            _ => false,
        }
}

/// On other platforms there are the numbers alone.
#[cfg(not(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(crate) fn same(one: &Device, other: &Device) -> bool {
    one == other
}

/// On other platforms wgpu itself reports it, to the handler of the queue's device.
#[cfg(not(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(crate) fn check_queue(_: &Device, _: &Queue) -> Result<()> {
    Ok(())
}
