//! Tensors as buffers, or copied to the host.

use dlbridge::Tensor;

use crate::buffer::{BufferRef, check_device};
use crate::sealed::Sealed;
use crate::{Device, Result, copy};

/// Tensors as Vulkan buffers.
pub trait TensorExt: Sealed {
    /// Returns the tensor's buffer, without a copy. The first element begins at [`byte_offset`](Tensor::byte_offset),
    /// and the strides are the tensor's; the caller passes both to the shader.
    ///
    /// # Errors
    /// [`Error::NotVulkan`](crate::Error::NotVulkan) for a tensor on another device,
    /// [`Error::Empty`](crate::Error::Empty) for a tensor without elements; an error for a read-only tensor.
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

    /// Returns the tensor's buffer for commands that do not write it.
    ///
    /// # Errors
    /// The errors of [`to_buffer`](Self::to_buffer), except the one for read-only tensors.
    ///
    /// ```no_run
    /// use dlbridge::Tensor;
    /// use dlbridge_vulkan::{BufferRef, Result, TensorExt};
    ///
    /// fn constants(tensor: &Tensor) -> Result<BufferRef<'_>> {
    ///     tensor.to_read_only_buffer() // the shader declares it as `readonly`
    /// }
    /// ```
    fn to_read_only_buffer(&self) -> Result<BufferRef<'_>>;

    /// Copies the elements to the host, in C order, after all commands that are in the device's queue. Commands of
    /// other queues must not write those bytes meanwhile, as [`Device::ash`] requires. The function fetches all bytes
    /// between the lowest and the highest.
    ///
    /// [`to_device`](crate::to_device) must have made the tensor, or the tensor that it is a slice of, with this
    /// device; the path since then does not matter. The check is limited to the handle: Vulkan allows a buffer of
    /// another `VkDevice` to have the same one, and then the function copies the elements of this device's buffer.
    ///
    /// # Errors
    /// [`Error::NotVulkan`](crate::Error::NotVulkan) for a tensor on another kind of device;
    /// [`Error::OtherDevice`](crate::Error::OtherDevice) for any other buffer, because Vulkan does not report the
    /// device of a buffer; errors of Vulkan.
    ///
    /// ```no_run
    /// use dlbridge_vulkan::{Device, Result, TensorExt};
    ///
    /// fn read(tensor: &dlbridge::Tensor, device: &Device) -> Result<dlbridge::Tensor> {
    ///     tensor.to_host(device)
    /// }
    /// ```
    fn to_host(&self, device: &Device) -> Result<Tensor>;

    /// Like [`to_host`](Self::to_host), for a buffer that other code made from the `VkDevice`.
    ///
    /// # Errors
    /// [`Error::NotVulkan`](crate::Error::NotVulkan) for a tensor on another kind of device; errors of Vulkan.
    ///
    /// # Safety
    /// - The buffer was made from this device's `VkDevice`, has memory, and may be copied from (`TRANSFER_SRC`).
    /// - The buffer has all elements, as the producer of a tensor promises.
    /// - The buffer is shared with the family of the device's queue, or that family owns it now.
    /// - Its memory is not protected.
    /// - Until this function returns, neither commands of other queues nor the host write the bytes between the
    ///   tensor's lowest and highest; earlier writes have finished, and are available.
    ///
    /// ```no_run
    /// use dlbridge_vulkan::{Device, Result, TensorExt};
    ///
    /// fn read(tensor: &dlbridge::Tensor, device: &Device) -> Result<dlbridge::Tensor> {
    ///     // SAFETY: the renderer makes its tensors from the device that this program has adopted.
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
        // SAFETY: the caller fulfils the contract of this method, which is also that of the function.
        unsafe { copy::to_host_unchecked(self, device) }
    }
}
