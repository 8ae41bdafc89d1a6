//! Devices of this crate's own: the loader, an instance, and a logical device with one queue.

use std::sync::{Mutex, PoisonError};

use ash::{Entry, vk};

use crate::{Error, Result};

/// What a [`Device`](crate::Device) is made of, for [`Device::from_parts`](crate::Device::from_parts).
///
/// ```no_run
/// use dlbridge_vulkan::{Device, DeviceParts};
///
/// /// Destroys the `VkDevice` when it is dropped, and then its instance.
/// struct Engine(DeviceParts);
///
/// fn device(engine: std::sync::Arc<Engine>) -> dlbridge_vulkan::Result<Device> {
///     let parts = engine.0.clone();
///     // SAFETY: the engine keeps all of it, and takes `Device::queue` for whatever it does there.
///     unsafe { Device::from_parts(engine, parts) }
/// }
/// ```
#[derive(Clone)]
pub struct DeviceParts {
    /// The instance.
    pub instance: ash::Instance,
    /// One of its physical devices.
    pub physical_device: vk::PhysicalDevice,
    /// A logical device of that.
    pub device: ash::Device,
    /// The family of queues that buffers belong to.
    pub queue_family: u32,
    /// A queue of the family.
    pub queue: vk::Queue,
}

/// An instance that is destroyed when it is dropped.
struct Instance(ash::Instance);

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: made here, and what was made from it is gone: `LogicalDevice` drops it last.
        unsafe { self.0.destroy_instance(None) }
    }
}

/// A logical device that is destroyed when it is dropped, and then its instance.
pub(crate) struct LogicalDevice {
    device: ash::Device,
    _instance: Instance,
}

impl Drop for LogicalDevice {
    fn drop(&mut self) {
        // SAFETY: the last handle; whoever made something from it by `Device::ash` has destroyed that.
        // An error says that the device is lost, and that has to be destroyed as well.
        unsafe {
            let _ = self.device.device_wait_idle();
            self.device.destroy_device(None);
        }
    }
}

/// The loader, which stays open: closing it takes drivers away that other threads may be in.
fn entry() -> Result<Entry> {
    static ENTRY: Mutex<Option<Entry>> = Mutex::new(None);
    let mut entry = ENTRY.lock().unwrap_or_else(PoisonError::into_inner);
    if entry.is_none() {
        // SAFETY: the system's loader keeps to Vulkan's interface, and is never closed.
        *entry = Some(unsafe { Entry::load() }.map_err(Error::NoLoader)?);
    }
    Ok(entry.clone().expect("opened above"))
}

fn instance(entry: &Entry) -> Result<Instance> {
    // SAFETY: the loader is open.
    let loader = unsafe { entry.try_enumerate_instance_version() }?;
    // A loader of Vulkan 1.0 refuses any other; it has not got the function either.
    let version = loader.map_or(vk::API_VERSION_1_0, |version| version.min(vk::API_VERSION_1_1));
    let application = vk::ApplicationInfo::default().api_version(version);
    let info = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: no layers, no extensions, no allocator of ours.
    Ok(Instance(unsafe { entry.create_instance(&info, None) }?))
}

/// Opens the physical device with a number, and a queue for compute shaders on it.
pub(crate) fn open(id: i32) -> Result<(LogicalDevice, DeviceParts)> {
    let entry = entry()?;
    let instance = instance(&entry)?;
    let raw = instance.0.clone();
    // SAFETY: the instance lives.
    let devices = unsafe { raw.enumerate_physical_devices() }?;
    let found = usize::try_from(id).ok().and_then(|id| devices.get(id));
    let physical_device = *found.ok_or(Error::NoDevice { id, count: devices.len() })?;
    // SAFETY: a physical device of the instance.
    let families = unsafe { raw.get_physical_device_queue_family_properties(physical_device) };
    let compute = |family: &vk::QueueFamilyProperties| {
        family.queue_count > 0 && family.queue_flags.contains(vk::QueueFlags::COMPUTE)
    };
    let family = families.iter().position(compute).ok_or(Error::NoQueue { id })?;
    let queue_family = family as u32;
    let queues = [vk::DeviceQueueCreateInfo::default()
        .queue_family_index(queue_family)
        .queue_priorities(&[1.0])];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
    // SAFETY: a physical device of the instance and one of its families of queues.
    let device = unsafe { raw.create_device(physical_device, &info, None) }?;
    let owner = LogicalDevice { device: device.clone(), _instance: instance };
    // SAFETY: the one queue that was asked for.
    let queue = unsafe { device.get_device_queue(queue_family, 0) };
    Ok((owner, DeviceParts { instance: raw, physical_device, device, queue_family, queue }))
}
