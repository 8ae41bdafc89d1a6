//! Work on the devices of CUDA and ROCm: streams, copies, and memory that is given back in their order.
//!
//! Without the feature `gpu` drivers are left out (`absent.rs`), and an import that needs one fails with an error that says so.

#[cfg(not(feature = "gpu"))]
mod absent;
#[cfg(feature = "gpu")]
mod copy;
#[cfg(feature = "gpu")]
mod driver;
#[cfg(feature = "gpu")]
mod entered;
#[cfg(feature = "gpu")]
mod event;
#[cfg(feature = "gpu")]
mod release;
#[cfg(feature = "gpu")]
mod staging;

use dlbridge::{Device, DeviceType};

#[cfg(not(feature = "gpu"))]
pub(crate) use absent::{Driver, Failure, Place, after_stream, copied, order, wait};
#[cfg(feature = "gpu")]
pub(crate) use copy::{Place, copied};
#[cfg(feature = "gpu")]
pub(crate) use driver::{Driver, Failure};
#[cfg(feature = "gpu")]
pub(crate) use event::{order, wait};
#[cfg(feature = "gpu")]
pub(crate) use release::after_stream;

/// Returns true if a driver can copy from one device to another.
pub(crate) fn is_possible(from: Device, to: Device) -> bool {
    let is_cuda = |device: Device| {
        matches!(device.device_type(), DeviceType::CUDA | DeviceType::CUDA_MANAGED)
    };
    match to.device_type() {
        DeviceType::CUDA => is_cuda(from) || from.device_type().is_host_accessible(),
        _ => to == Device::CPU && is_cuda(from),
    }
}
