//! Owners of tensors on `webgpu`, the lookup from a tensor to its buffer, and comparisons of devices and queues.
//!
//! wgpu does not provide a handle for a tensor's data pointer. The pointer is the address of the owner's [`Memory`],
//! which holds the [`wgpu::Buffer`]. The crate never dereferences it, and looks it up among the addresses of all live
//! owners. So it recognises another library's tensor on `webgpu` without reading what that points to.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use wgpu::{Device, Queue};

use crate::{Error, Result};

/// The memory that the owner of a tensor keeps.
#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) buffer: wgpu::Buffer,
    /// The device of the buffer, if this crate made the buffer: wgpu cannot report it.
    device: Option<wgpu::Device>,
}

impl Memory {
    pub(crate) fn new(buffer: wgpu::Buffer, device: Option<&wgpu::Device>) -> Self {
        Self { buffer, device: device.cloned() }
    }

    /// Refuses a device that is known not to be the buffer's. wgpu does not refuse it: it compares only numbers, and
    /// each instance counts from the beginning.
    pub(crate) fn check_device(&self, other: &wgpu::Device) -> Result<()> {
        match self.device.as_ref().is_none_or(|device| same(device, other)) {
            true => Ok(()),
            false => Err(Error::OtherDevice),
        }
    }
}

/// All live owners, by address. No address is reused while it is in this map, because the weak handle keeps the
/// allocation.
static HELD: Mutex<BTreeMap<usize, Weak<Memory>>> = Mutex::new(BTreeMap::new());

fn held() -> MutexGuard<'static, BTreeMap<usize, Weak<Memory>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The owner of a tensor on `webgpu`.
pub(crate) struct Held(Arc<Memory>);

impl Held {
    pub(crate) fn new(memory: Memory) -> Self {
        let memory = Arc::new(memory);
        held().insert(Arc::as_ptr(&memory).addr(), Arc::downgrade(&memory));
        Self(memory)
    }

    /// Returns the tensor's data pointer.
    pub(crate) fn data(&self) -> *mut c_void {
        Arc::as_ptr(&self.0).cast_mut().cast()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Releases the lock before wgpu drops the buffer, which may own a tensor in turn.
        held().remove(&self.data().addr());
    }
}

/// Returns the memory of the owner with this [`data`](Held::data) pointer.
pub(crate) fn find(data: *mut c_void) -> Option<Memory> {
    let found = held().get(&data.addr())?.upgrade()?;
    Some(Memory::clone(&found))
}

/// Refuses a queue of another device, if wgpu shows the difference.
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(crate) fn check_queue(device: &Device, queue: &Queue) -> Result<()> {
    use wgpu::hal::api::Vulkan;

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
