//! Devices that this crate opens: the loader, an instance, and a logical device with one queue.

use std::sync::{Mutex, PoisonError};

use ash::{Entry, vk};

use crate::{Error, Result};

/// The Vulkan objects of a [`Device`](crate::Device), for [`Device::from_parts`](crate::Device::from_parts).
///
/// ```no_run
/// use dlbridge_vulkan::{Device, DeviceParts};
///
/// /// Destroys the `VkDevice` when it is dropped, and then its instance.
/// struct Engine(DeviceParts);
///
/// fn device(engine: std::sync::Arc<Engine>) -> dlbridge_vulkan::Result<Device> {
///     let parts = engine.0.clone();
///     // SAFETY: the engine keeps all parts, and uses the queue only while it holds `Device::queue`.
///     unsafe { Device::from_parts(engine, parts) }
/// }
/// ```
#[derive(Clone)]
pub struct DeviceParts {
    /// The instance.
    pub instance: ash::Instance,
    /// One of its physical devices.
    pub physical_device: vk::PhysicalDevice,
    /// A logical device of the physical device.
    pub device: ash::Device,
    /// The queue family that owns the buffers.
    pub queue_family: u32,
    /// A queue of that family.
    pub queue: vk::Queue,
}

/// An instance that is destroyed when it is dropped.
struct Instance(ash::Instance);

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: this module made the instance, and everything made from it is gone: `LogicalDevice` drops it last.
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
        // SAFETY: this is the last handle; code that made objects through `Device::ash` has destroyed them, as that
        // method requires. An error means that the device is lost, and a lost device must also be destroyed.
        unsafe {
            let _ = self.device.device_wait_idle();
            self.device.destroy_device(None);
        }
    }
}

/// Opens the loader, which stays open: closing it would unload drivers that other threads may be running.
fn entry() -> Result<Entry> {
    static ENTRY: Mutex<Option<Entry>> = Mutex::new(None);
    let mut entry = ENTRY.lock().unwrap_or_else(PoisonError::into_inner);
    if entry.is_none() {
        // SAFETY: the system's loader follows Vulkan's interface, and is never closed.
        *entry = Some(unsafe { Entry::load() }.map_err(Error::NoLoader)?);
    }
    Ok(entry.clone().expect("opened above"))
}

fn instance(entry: &Entry) -> Result<Instance> {
    // SAFETY: the loader is open.
    let loader = unsafe { entry.try_enumerate_instance_version() }?;
    // A Vulkan 1.0 loader refuses any other version, and lacks the function that reports its version.
    let version = loader.map_or(vk::API_VERSION_1_0, |version| version.min(vk::API_VERSION_1_1));
    let application = vk::ApplicationInfo::default().api_version(version);
    let info = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: the call names no layers, no extensions and no allocator, and `entry` keeps the loader open.
    Ok(Instance(unsafe { entry.create_instance(&info, None) }?))
}

/// Opens a physical device by its number, with a queue for compute shaders.
pub(crate) fn open(id: i32) -> Result<(LogicalDevice, DeviceParts)> {
    let entry = entry()?;
    let instance = instance(&entry)?;
    let raw = instance.0.clone();
    // SAFETY: `instance` keeps it alive.
    let devices = unsafe { raw.enumerate_physical_devices() }?;
    let found = usize::try_from(id).ok().and_then(|id| devices.get(id));
    let physical_device = *found.ok_or(Error::NoDevice { id, count: devices.len() })?;
    // SAFETY: `physical_device` is from this instance.
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
    // SAFETY: `physical_device` is from this instance, and the queue family is one of its own.
    let device = unsafe { raw.create_device(physical_device, &info, None) }?;
    let owner = LogicalDevice { device: device.clone(), _instance: instance };
    // SAFETY: `info` requested this one queue.
    let queue = unsafe { device.get_device_queue(queue_family, 0) };
    Ok((owner, DeviceParts { instance: raw, physical_device, device, queue_family, queue }))
}
