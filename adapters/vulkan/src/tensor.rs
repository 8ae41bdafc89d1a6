//! Tensors as buffers, or copied to the host.

use dlbridge::Tensor;

use crate::buffer::{BufferRef, check_device};
use crate::sealed::Sealed;
use crate::{Device, Result, copy};

/// Tensors as buffers of Vulkan.
pub trait TensorExt: Sealed {
    /// The tensor's buffer: the same memory. The first element is [`byte_offset`](Tensor::byte_offset) bytes in, and
    /// the strides are the tensor's; a shader is told both.
    ///
    /// # Errors
    /// [`Error::NotVulkan`](crate::Error::NotVulkan) for a tensor that is somewhere else,
    /// [`Error::Empty`](crate::Error::Empty) for one that has no memory; an error for one that must not be written.
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

    /// A copy of the elements on the host, in C order, when all commands that are in the device's queue are done. Of
    /// other queues no commands write those bytes meanwhile, as [`Device::ash`] asks. All bytes between the lowest
    /// and the highest are fetched.
    ///
    /// The tensor is one that [`to_device`](crate::to_device) made with this device, or a part of one, whichever way
    /// it went meanwhile. As far as the handle tells: Vulkan does not rule out that a buffer of another `VkDevice`
    /// has the same one, and then the elements of this device's buffer are copied.
    ///
    /// # Errors
    /// [`Error::NotVulkan`](crate::Error::NotVulkan) for a tensor that is somewhere else;
    /// [`Error::OtherDevice`](crate::Error::OtherDevice) for one of any other buffer, since Vulkan does not tell
    /// whose that is; what Vulkan says.
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
    /// [`Error::NotVulkan`](crate::Error::NotVulkan) for a tensor that is somewhere else; what Vulkan says.
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
