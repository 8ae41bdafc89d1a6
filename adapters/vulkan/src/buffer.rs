//! Buffers as tensors, and tensors as buffers.

use std::ops::Range;
use std::ptr;

use ash::vk;
use ash::vk::Handle;
use dlbridge::{Access, DataType, Device as TensorDevice, DeviceType, RawParts, Tensor, TensorRef};

use crate::{Error, Result};

/// A buffer and the meaning of its bytes, for [`from_buffer`].
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
    /// The size of the buffer in bytes.
    pub size: u64,
    /// The number of the physical device: its position in `vkEnumeratePhysicalDevices`.
    pub id: i32,
    /// The type of the elements.
    pub dtype: DataType,
    /// The byte in the buffer where the first element begins.
    pub byte_offset: u64,
    /// How the buffer may be used.
    pub access: Access,
    /// True if elements narrower than a byte take a whole byte each.
    pub subbyte_padded: bool,
}

impl BufferParts {
    /// Makes parts for a shared buffer of device 0 with elements from its beginning.
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

/// Makes a tensor in C order over a buffer, without a copy, with the owner that keeps the buffer.
///
/// # Errors
/// [`Error::TooSmall`] if the buffer has too few elements; an error for a null buffer. The owner is dropped.
///
/// # Safety
/// - The buffer was made from a logical device of the physical device that `id` names, and has memory and `size` bytes.
/// - Buffer, memory and logical device live until the owner is dropped, which may be on any thread.
/// - With [`Access::Exclusive`] nothing else uses the buffer; unless the access is [`Access::ReadOnly`], the buffer may
///   be written.
///
/// Consumers also rely on the [convention of this crate](crate#fields-of-the-tensors): how the buffer may be used, and
/// that all commands that write it have finished.
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
///     // SAFETY: the buffer is of device 0 and of this size, and the owner keeps it.
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
    // SAFETY: the caller guarantees that the owner keeps the buffer; the CPU makes no view of device data, and the
    // check below refuses elements past the end of the buffer before anything uses the tensor.
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
/// /// Returns what to bind, and the number of bytes from its beginning to the tensor's bytes.
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
    /// Returns the buffer of a tensor that has elements.
    pub(crate) fn of(tensor: &'a Tensor) -> Result<Self> {
        check_device(tensor)?;
        match tensor.is_empty() {
            true => Err(Error::Empty),
            false => Ok(Self { tensor }),
        }
    }

    /// Returns the handle. Commands that use it must finish before the tensor is dropped.
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

    /// Returns the bytes of the buffer from the tensor's lowest to its highest. The element at index zero begins at
    /// [`byte_offset`](Tensor::byte_offset), which is not the lowest byte if a stride is negative.
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

    /// Refuses elements that reach past the end of a buffer of `size` bytes.
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
