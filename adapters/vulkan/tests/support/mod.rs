//! A device of Vulkan for the tests: the first that there is, lavapipe in CI.
//!
//! Without one nothing is tried, which is a failure where `DLBRIDGE_REQUIRE` is set.

use dlbridge_testing::required;
use dlbridge_vulkan::Device;

/// The first device, or nothing, with the reason printed.
pub(crate) fn device() -> Option<Device> {
    required("Vulkan", Device::new(0))
}
