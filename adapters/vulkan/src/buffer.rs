//! Buffers as tensors, and tensors as buffers.

use std::ops::Range;
use std::ptr;

use ash::vk;
use ash::vk::Handle;
use dlbridge::{Access, DataType, Device as TensorDevice, DeviceType, RawParts, Tensor, TensorRef};

use crate::sealed::Sealed;
use crate::{Device, Error, Result, copy};

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

/// Tensors as buffers of Vulkan.
pub trait TensorExt: Sealed {
    /// The tensor's buffer: the same memory. The first element is [`byte_offset`](Tensor::byte_offset) bytes in, and
    /// the strides are the tensor's; a shader is told both.
    ///
    /// # Errors
    /// [`Error::NotVulkan`] for a tensor that is somewhere else, [`Error::Empty`] for one that has no memory; an
    /// error for one that must not be written.
    ///
    /// ```no_run
    /// use ash::vk;
    /// use dlbridge_vulkan::{Result, TensorExt};
    ///
    /// fn memory(tensor: &dlbridge::Tensor) -> Result<vk::Buffer> {
    ///     Ok(tensor.to_buffer()?.handle())
    /// }
    /// ```
    fn to_buffer(&self) -> Result<BufferRef<'_>>;

    /// The tensor's buffer for commands that do not write it.
    ///
    /// # Errors
    /// As [`to_buffer`](Self::to_buffer), but for what must not be written.
    ///
    /// ```no_run
    /// use dlbridge::Tensor;
    /// use dlbridge_vulkan::{BufferRef, Result, TensorExt};
    ///
    /// fn constants(tensor: &Tensor) -> Result<BufferRef<'_>> {
    ///     tensor.to_read_only_buffer() // the shader has it as `readonly`
    /// }
    /// ```
    fn to_read_only_buffer(&self) -> Result<BufferRef<'_>>;

    /// A copy of the elements on the host, in C order, when all commands that are in the device's queue are done.
    /// Of other queues no commands write those bytes meanwhile, as [`Device::ash`] asks. All bytes between the lowest and the
    /// highest are fetched.
    ///
    /// The tensor is one that [`to_device`](crate::to_device) made with this device, or a part of one, whichever way
    /// it went meanwhile. As far as the handle tells: Vulkan does not rule out that a buffer of another `VkDevice` has the same
    /// one, and then the elements of this device's buffer are copied.
    ///
    /// # Errors
    /// [`Error::NotVulkan`] for a tensor that is somewhere else; [`Error::OtherDevice`] for one of any other buffer,
    /// since Vulkan does not tell whose that is; what Vulkan says.
    ///
    /// ```no_run
    /// use dlbridge_vulkan::{Device, Result, TensorExt};
    ///
    /// fn read(tensor: &dlbridge::Tensor, device: &Device) -> Result<dlbridge::Tensor> {
    ///     tensor.to_host(device)
    /// }
    /// ```
    fn to_host(&self, device: &Device) -> Result<Tensor>;

    /// As [`to_host`](Self::to_host), of a buffer that somebody else made from the `VkDevice`.
    ///
    /// # Errors
    /// [`Error::NotVulkan`] for a tensor that is somewhere else; what Vulkan says.
    ///
    /// # Safety
    /// - The buffer was made from this device's `VkDevice`, has memory, and may be copied from (`TRANSFER_SRC`).
    /// - The elements lie in it, as the producer of a tensor promises.
    /// - It is shared with the family of the device's queue, or is that family's now.
    /// - Its memory is not protected.
    /// - Until this returns, neither commands of other queues nor the host write the bytes between the tensor's lowest and
    ///   highest; those that did are done, and what they wrote is available.
    ///
    /// ```no_run
    /// use dlbridge_vulkan::{Device, Result, TensorExt};
    ///
    /// fn read(tensor: &dlbridge::Tensor, device: &Device) -> Result<dlbridge::Tensor> {
    ///     // SAFETY: the renderer makes its tensors from the device that we have adopted.
    ///     unsafe { tensor.to_host_unchecked(device) }
    /// }
    /// ```
    unsafe fn to_host_unchecked(&self, device: &Device) -> Result<Tensor>;
}

impl Sealed for Tensor {}

impl TensorExt for Tensor {
    fn to_buffer(&self) -> Result<BufferRef<'_>> {
        let buffer = BufferRef::of(self)?;
        match self.is_read_only() {
            true => Err(dlbridge::Error::ReadOnly.into()),
            false => Ok(buffer),
        }
    }

    fn to_read_only_buffer(&self) -> Result<BufferRef<'_>> {
        BufferRef::of(self)
    }

    fn to_host(&self, device: &Device) -> Result<Tensor> {
        check_device(self)?;
        copy::to_host(self, device)
    }

    unsafe fn to_host_unchecked(&self, device: &Device) -> Result<Tensor> {
        check_device(self)?;
        // SAFETY: the same contract.
        unsafe { copy::to_host_unchecked(self, device) }
    }
}

fn check_device(tensor: &Tensor) -> Result<()> {
    let device = tensor.device();
    match device.device_type() == DeviceType::VULKAN {
        true => Ok(()),
        false => Err(Error::NotVulkan { device }),
    }
}
