//! Buffers of a real wgpu, on the first device of its Vulkan backend: Mesa's lavapipe in CI.
//!
//! Without a device the tests are skipped, or fail if `DLBRIDGE_REQUIRE` is set.

mod buffers;
mod gpu;
mod shaders;
