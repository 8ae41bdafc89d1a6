//! The number of a device: its place in the lists of all platforms.

use cl3::context::{CL_CONTEXT_DEVICES, get_context_info};
use dlbridge::{Device, DeviceType};
use opencl3::device::{CL_DEVICE_TYPE_ALL, get_all_devices};
use opencl3::error_codes::ClError;
use opencl3::memory::ClMem;

use crate::{Error, Result};

/// The device of a buffer: the first one of its context.
pub(crate) fn of_buffer(buffer: &impl ClMem) -> Result<Device> {
    let info = get_context_info(buffer.context()?, CL_CONTEXT_DEVICES).map_err(ClError)?;
    let devices: Vec<isize> = info.into();
    let first = devices.first();
    let place = get_all_devices(CL_DEVICE_TYPE_ALL)?
        .into_iter()
        .position(|device| first == Some(&(device.addr() as isize)));
    let place = place.and_then(|place| i32::try_from(place).ok()).ok_or(Error::UnlistedDevice)?;
    Ok(Device::new(DeviceType::OPENCL, place))
}
