//! Buffers as tensors, and tensors as buffers.

use std::ops::Range;
use std::ptr;

use ash::vk;
use ash::vk::Handle;
use dlbridge::{Access, DataType, Device as TensorDevice, DeviceType, RawParts, Tensor, TensorRef};

use crate::{Error, Result};

/// A buffer and what its bytes mean, for [`from_buffer`].
///
/// ```
/// use ash::vk::Buffer;
/// use dlbridge::{Access, DataType};
/// use dlbridge_vulkan::BufferParts;
///
/// let parts = BufferParts::new(Buffer::null(), 64, DataType::FLOAT32);
/// assert_eq!((parts.id, parts.byte_offset, parts.access), (0, 0, Access::Shared));
/// let second_half = BufferParts { byte_offset: 32, ..parts };
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BufferParts {
    /// The handle.
    pub buffer: vk::Buffer,
    /// How many bytes the buffer has.
    pub size: u64,
    /// The number of the physical device, its place in `vkEnumeratePhysicalDevices`.
    pub id: i32,
    /// The type of the elements.
    pub dtype: DataType,
    /// Where in the buffer the first element begins.
    pub byte_offset: u64,
    /// Who may use the buffer.
    pub access: Access,
    /// Whether elements narrower than a byte take a whole byte each.
    pub subbyte_padded: bool,
}

impl BufferParts {
    /// A buffer of device 0 with elements from its beginning, which others may use too.
    ///
    /// ```
    /// use ash::vk::Buffer;
    /// use dlbridge::DataType;
    /// use dlbridge_vulkan::BufferParts;
    ///
    /// assert_eq!(BufferParts::new(Buffer::null(), 64, DataType::FLOAT32).size, 64);
    /// ```
    pub const fn new(buffer: vk::Buffer, size: u64, dtype: DataType) -> Self {
        let access = Access::Shared;
        Self { buffer, size, id: 0, dtype, byte_offset: 0, access, subbyte_padded: false }
    }
}

/// A tensor in C order over a buffer, without a copy, and the owner that keeps it.
///
/// # Errors
/// [`Error::TooSmall`] for a buffer of fewer elements; an error for no buffer. The owner is dropped.
///
/// # Safety
/// - The buffer was made from a logical device of the physical one that `id` names, and has memory and `size` bytes.
/// - Buffer, memory and logical device live until the owner is dropped, which may be on any thread.
/// - With [`Access::Exclusive`] nobody else uses it; unless it is [`Access::ReadOnly`], it may be written.
///
/// What a consumer counts on beside that is in the [documentation of the crate](crate#what-such-a-tensor-says): how
/// the buffer may be used, and that all commands that write it are done.
///
/// ```no_run
/// use ash::vk;
/// use dlbridge::{DataType, Tensor};
/// use dlbridge_vulkan::{BufferParts, Result, from_buffer};
///
/// /// Destroys the buffer when it is dropped, frees its memory, and keeps the device.
/// struct Particles {
///     buffer: vk::Buffer,
///     count: usize,
/// }
///
/// fn positions(particles: Particles) -> Result<Tensor> {
///     let shape = [particles.count, 3];
///     let size = 12 * particles.count as u64;
///     let parts = BufferParts::new(particles.buffer, size, DataType::FLOAT32);
///     // SAFETY: of device 0, of this size, and the owner keeps it.
///     unsafe { from_buffer(particles, parts, shape) }
/// }
/// ```
pub unsafe fn from_buffer<O: Send + 'static>(
    owner: O,
    parts: BufferParts,
    shape: impl AsRef<[usize]>,
) -> Result<Tensor> {
    let raw = RawParts {
        device: TensorDevice::new(DeviceType::VULKAN, parts.id),
        byte_offset: parts.byte_offset,
        access: parts.access,
        subbyte_padded: parts.subbyte_padded,
        ..RawParts::new(ptr::without_provenance_mut(parts.buffer.as_raw() as usize), parts.dtype)
    };
    // SAFETY: a buffer that the owner keeps; no view is made of what is on a device, and what is behind the buffer's
    // end is refused below, before anybody has the tensor.
    let tensor = unsafe { Tensor::from_raw_parts(owner, raw, shape.as_ref(), None::<&[i64]>) }?;
    if !tensor.is_empty() {
        BufferRef { tensor: &tensor }.check_within(parts.size)?;
    }
    Ok(tensor)
}

/// The buffer of a tensor, which stays alive as long as the tensor does.
///
/// ```no_run
/// use ash::vk::DescriptorBufferInfo;
/// use dlbridge_vulkan::BufferRef;
///
/// /// What to bind, and how many bytes behind its beginning the tensor's bytes are.
/// fn binding(buffer: BufferRef<'_>, alignment: u64) -> (DescriptorBufferInfo, u64) {
///     let bytes = buffer.bytes();
///     let rest = bytes.start % alignment; // minStorageBufferOffsetAlignment
///     let info = DescriptorBufferInfo::default()
///         .buffer(buffer.handle())
///         .offset(bytes.start - rest)
///         .range(bytes.end - bytes.start + rest);
///     (info, rest)
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BufferRef<'a> {
    tensor: &'a Tensor,
}

impl<'a> BufferRef<'a> {
    /// The buffer of a tensor that has one.
    pub(crate) fn of(tensor: &'a Tensor) -> Result<Self> {
        check_device(tensor)?;
        match tensor.is_empty() {
            true => Err(Error::Empty),
            false => Ok(Self { tensor }),
        }
    }

    /// The handle. Commands that use it are done before the tensor goes.
    ///
    /// ```no_run
    /// use dlbridge_vulkan::{Device, TensorExt, to_device};
    ///
    /// let tensor = to_device(&[1.0_f32, 2.0], &Device::new(0)?)?;
    /// let buffer = tensor.to_buffer()?;
    /// assert_ne!(buffer.handle(), ash::vk::Buffer::null());
    /// # Ok::<(), dlbridge_vulkan::Error>(())
    /// ```
    pub fn handle(self) -> vk::Buffer {
        vk::Buffer::from_raw(self.tensor.data().addr() as u64)
    }

    /// The bytes of the buffer from the tensor's lowest to its highest. The element at index zero is at
    /// [`byte_offset`](Tensor::byte_offset), which is not the lowest where strides are negative.
    ///
    /// ```no_run
    /// use dlbridge_vulkan::{Device, TensorExt, to_device};
    ///
    /// let tensor = to_device(&[1.0_f32, 2.0, 3.0], &Device::new(0)?)?;
    /// let backwards = tensor.slice(0, 1..)?.flip(0)?;
    /// assert_eq!(backwards.byte_offset(), 8);
    /// assert_eq!(backwards.to_buffer()?.bytes(), 4..12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bytes(self) -> Range<u64> {
        let (bounds, offset) =
            (TensorRef::from(self.tensor).byte_bounds(), self.tensor.byte_offset());
        // The core has checked that neither leaves the range from 0 to i64::MAX.
        let at = |bound: isize| offset.wrapping_add_signed(bound as i64);
        at(bounds.start)..at(bounds.end)
    }

    /// Refuses elements that a buffer of so many bytes has not.
    pub(crate) fn check_within(self, size: u64) -> Result<()> {
        let Range { start: first, end } = self.bytes();
        match end <= size {
            true => Ok(()),
            false => Err(Error::TooSmall { first, end, size }),
        }
    }
}

pub(crate) fn check_device(tensor: &Tensor) -> Result<()> {
    let device = tensor.device();
    match device.device_type() == DeviceType::VULKAN {
        true => Ok(()),
        false => Err(Error::NotVulkan { device }),
    }
}
