//! Buffers of a real wgpu, on the first device of its Vulkan backend: Mesa's lavapipe in CI.
//!
//! Without a device the tests are skipped, or fail if `DLBRIDGE_REQUIRE` is set.

mod buffers;
#[cfg(all(target_pointer_width = "64", target_os = "linux"))]
mod deleters;
mod devices;
mod gpu;
#[cfg(all(target_pointer_width = "64", target_os = "linux"))]
mod raw;
mod shaders;
#[cfg(all(target_pointer_width = "64", target_os = "linux"))]
mod vulkan;
