//! A device of Vulkan for the tests: the first that there is, lavapipe in CI.
//!
//! Without one nothing is tried, which is a failure where `DLBRIDGE_REQUIRE` is set.

use std::env;

use dlbridge_vulkan::Device;

/// The first device, or nothing, with the reason printed.
pub(crate) fn device() -> Option<Device> {
    match Device::new(0) {
        Ok(device) => Some(device),
        Err(reason) => {
            assert!(env::var_os("DLBRIDGE_REQUIRE").is_none(), "Vulkan is required: {reason}");
            println!("skipped: no Vulkan: {reason}");
            None
        }
    }
}
