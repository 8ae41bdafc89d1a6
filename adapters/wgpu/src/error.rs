//! What can go wrong.

use dlbridge::{Device, DeviceType};
use wgpu::BufferUsages;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a buffer is no tensor, or a tensor no buffer.
///
/// ```
/// use dlbridge::Tensor;
/// use dlbridge_wgpu::{Error, TensorExt};
///
/// let error = Tensor::from(vec![1.0_f32]).to_buffer().unwrap_err();
/// assert!(matches!(error, Error::OtherDeviceType { .. }));
/// assert_eq!(error.to_string(), "the tensor is on cpu, and not on webgpu; copy it there with to_device");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the tensor itself refuses.
    #[error("{0}")]
    Tensor(#[from] dlbridge::Error),
    /// What wgpu refused.
    #[error("wgpu: {0}")]
    Wgpu(#[source] wgpu::Error),
    /// What wgpu said while it waited for the device, or while a buffer was mapped.
    #[error("wgpu, while it was waited for: {0}")]
    Wait(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The elements do not fit the buffer, or begin before it.
    #[error(
        "the elements take the bytes {first} to {end} of a buffer of {size}; make it larger, or the tensor smaller"
    )]
    TooSmall {
        /// The first byte of them, counted from the beginning of the buffer.
        first: i64,
        /// The byte after the last.
        end: i64,
        /// The bytes that the buffer has.
        size: u64,
    },
    /// The buffer's size is no multiple of 4.
    #[error(
        "the buffer has {size} bytes, but WebGPU copies and binds multiples of 4 alone; create it with {}",
        .size.next_multiple_of(4)
    )]
    UnevenSize {
        /// The bytes that the buffer has.
        size: u64,
    },
    /// The buffer was created without what a tensor is used for.
    #[error("the buffer was created without the usages {missing:?}; add them")]
    Usages {
        /// The usages that it lacks.
        missing: BufferUsages,
    },
    /// The tensor is somewhere else.
    #[error("the tensor is on {found}, and not on {expected}{}", copy_there(*found, *expected))]
    OtherDeviceType {
        /// Where it is.
        found: Device,
        /// Where it has to be.
        expected: DeviceType,
    },
    /// The tensor is on `webgpu`, but this crate, in this program, has not made it.
    #[error(
        "the tensor is on webgpu, but was not made by this crate in this program: what another library exports there, \
         such as a WGPUBuffer, is not a buffer of wgpu; copy it through the host, or share it through Vulkan"
    )]
    Foreign,
    /// The tensor has no elements, and so no memory.
    #[error("the tensor has no elements, and so no buffer")]
    Empty,
    /// The device and the queue, or the device and the tensor, do not belong together.
    #[error(
        "the device is not the one of the queue, or of the tensor; use the one that they were made with"
    )]
    OtherDevice,
    /// The device is not one of wgpu's Vulkan backend.
    #[error(
        "the device is of another backend of wgpu than Vulkan, and its buffers are no VkBuffer; create the instance \
         with Backends::VULKAN"
    )]
    NotVulkan,
    /// The buffer has no `VkBuffer` any more.
    #[error("the buffer has no VkBuffer: it was destroyed, or is of a device of another backend")]
    Destroyed,
    /// The device was destroyed, or is lost.
    #[error(
        "the device was destroyed or is lost, and takes no more work; request another of the adapter"
    )]
    Lost,
    /// The thread that calls deleters could not be started.
    #[error("the thread that calls deleters could not be started: {0}")]
    Thread(#[source] std::io::Error),
}

/// What to do about a tensor on another device, if a copy from there works.
fn copy_there(found: Device, expected: DeviceType) -> &'static str {
    match expected == DeviceType::WEB_GPU && found.device_type().is_host_accessible() {
        true => "; copy it there with to_device",
        false => "",
    }
}
