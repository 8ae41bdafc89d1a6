//! The number of a device: its position in the lists of all platforms.

use cl3::context::{CL_CONTEXT_DEVICES, get_context_info};
use cl3::device::{CL_DEVICE_PARENT_DEVICE, get_device_info};
use cl3::types::cl_device_id;
use dlbridge::{Device, DeviceType};
use opencl3::device::{CL_DEVICE_TYPE_ALL, get_all_devices};
use opencl3::error_codes::ClError;
use opencl3::memory::ClMem;

use crate::{Error, Result};

/// Returns the device of a buffer: the first device of its context.
pub(crate) fn of_buffer(buffer: &impl ClMem) -> Result<Device> {
    let info = get_context_info(buffer.context()?, CL_CONTEXT_DEVICES).map_err(ClError)?;
    let devices: Vec<isize> = info.into();
    let mut device = *devices.first().ok_or(Error::UnlistedDevice)?;
    // Platforms do not list sub-devices.
    loop {
        let parent = get_device_info(device as cl_device_id, CL_DEVICE_PARENT_DEVICE);
        match parent.map_err(ClError)?.into() {
            0_isize => break,
            parent => device = parent,
        }
    }
    let place = get_all_devices(CL_DEVICE_TYPE_ALL)?
        .into_iter()
        .position(|listed| listed.addr() as isize == device);
    let place = place.and_then(|place| i32::try_from(place).ok()).ok_or(Error::UnlistedDevice)?;
    Ok(Device::new(DeviceType::OPENCL, place))
}
