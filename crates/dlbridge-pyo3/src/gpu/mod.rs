//! The drivers of CUDA and ROCm. Without the feature `gpu`, a substitute whose calls all fail.

#[cfg(not(feature = "gpu"))]
mod absent;

use dlbridge::{Device, DeviceType};
#[cfg(feature = "gpu")]
pub use dlbridge_gpu::{Driver, Failure, Place, after_stream, copied, order, wait};

#[cfg(not(feature = "gpu"))]
pub use self::absent::{Driver, Failure, Place, after_stream, copied, order, wait};

/// Returns true if the CUDA driver can copy from one device to another.
pub fn is_possible(from: Device, to: Device) -> bool {
    let is_cuda = |device: Device| {
        matches!(device.device_type(), DeviceType::CUDA | DeviceType::CUDA_MANAGED)
    };
    match to.device_type() {
        DeviceType::CUDA => is_cuda(from) || from.device_type().is_host_accessible(),
        _ => to == Device::CPU && is_cuda(from),
    }
}
