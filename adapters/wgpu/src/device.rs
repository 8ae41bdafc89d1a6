//! Compares devices, and checks that a queue belongs to a device.

use wgpu::{Device, Queue};

use crate::Result;

/// Refuses a queue of another device, if wgpu shows the difference.
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(crate) fn check_queue(device: &Device, queue: &Queue) -> Result<()> {
    use wgpu::hal::api::Vulkan;

    use crate::Error;

    // SAFETY: the code only compares the handles, and does nothing to their objects.
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

/// Returns whether two handles refer to the same device, as far as wgpu shows. Two devices compare equal if their
/// instances gave them the same number; equal Vulkan handles show that the instance is the same.
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(crate) fn same(one: &Device, other: &Device) -> bool {
    use wgpu::hal::api::Vulkan;

    // SAFETY: the code only compares the handles, and does nothing to their objects.
    let handles = unsafe { (one.as_hal::<Vulkan>(), other.as_hal::<Vulkan>()) };
    one == other
        && match handles {
            (None, None) => true,
            (Some(one), Some(other)) => one.raw_device().handle() == other.raw_device().handle(),
            _ => false,
        }
}

/// Other platforms have only the numbers.
#[cfg(not(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(crate) fn same(one: &Device, other: &Device) -> bool {
    one == other
}

/// On other platforms wgpu itself reports the error, to the handler of the queue's device.
#[cfg(not(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(crate) fn check_queue(_: &Device, _: &Queue) -> Result<()> {
    Ok(())
}
