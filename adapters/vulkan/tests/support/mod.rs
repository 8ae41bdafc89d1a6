//! A Vulkan device for the tests, the first one: lavapipe in CI.
//!
//! Without a device the tests are skipped, or fail if `DLBRIDGE_REQUIRE` is set.

use dlbridge_testing::required;
use dlbridge_vulkan::Device;

/// Returns the first device, or prints the reason and returns `None`.
pub(crate) fn device() -> Option<Device> {
    required("Vulkan", Device::new(0))
}
