//! Tensors as buffers, or copied to the host.

use dlbridge::{DeviceType, Tensor};
use wgpu::{Device, Queue};

use crate::buffer::{bytes, check_device_type, find};
use crate::held::Memory;
use crate::sealed::Sealed;
use crate::{Binding, Result, binding, copy};

/// Tensors as buffers of [wgpu](wgpu::Buffer).
pub trait TensorExt: Sealed {
    /// The tensor's buffer: the same memory. The element at index zero is [`byte_offset`](Tensor::byte_offset) bytes
    /// in, and the strides are the tensor's; a shader is told both, or what [`binding`](Self::binding) makes of the
    /// first.
    ///
    /// # Errors
    /// [`Error::OtherDeviceType`](crate::Error::OtherDeviceType) for a tensor that is somewhere else;
    /// [`Error::Foreign`](crate::Error::Foreign) for one on `webgpu` that this crate has not made;
    /// [`Error::Empty`](crate::Error::Empty) for one that has no memory; [`Error::TooSmall`](crate::Error::TooSmall)
    /// if the elements are not in the buffer; an error for one that must not be written.
    ///
    /// ```no_run
    /// use dlbridge_wgpu::{Result, TensorExt};
    ///
    /// fn memory(tensor: &dlbridge::Tensor) -> Result<wgpu::Buffer> {
    ///     tensor.to_buffer()
    /// }
    /// ```
    fn to_buffer(&self) -> Result<wgpu::Buffer>;

    /// As [`to_buffer`](Self::to_buffer), also of a tensor that must not be written. wgpu has no buffer that cannot
    /// be: who calls this binds it as `var<storage, read>`, or copies from it, and does not make an own tensor of it
    /// that says less. Else others find elements that they did not expect, but memory stays sound.
    ///
    /// # Errors
    /// As [`to_buffer`](Self::to_buffer), but for what must not be written.
    ///
    /// ```no_run
    /// use dlbridge_wgpu::{Result, TensorExt};
    ///
    /// fn constants(tensor: &dlbridge::Tensor) -> Result<wgpu::Buffer> {
    ///     tensor.to_buffer_for_reading()
    /// }
    /// ```
    fn to_buffer_for_reading(&self) -> Result<wgpu::Buffer>;

    /// The piece of the buffer that a shader has to see for this tensor: a binding begins at a multiple of the device's
    /// [`min_storage_buffer_offset_alignment`](wgpu::Limits::min_storage_buffer_offset_alignment), but a part of a
    /// tensor anywhere.
    ///
    /// # Errors
    /// As [`to_buffer_for_reading`](Self::to_buffer_for_reading).
    ///
    /// ```no_run
    /// use dlbridge_wgpu::{Result, TensorExt};
    ///
    /// fn bind(
    ///     tensor: &dlbridge::Tensor,
    ///     device: &wgpu::Device,
    ///     layout: &wgpu::BindGroupLayout,
    /// ) -> Result<(wgpu::BindGroup, u64)> {
    ///     let (buffer, binding) = (tensor.to_buffer()?, tensor.binding(device)?);
    ///     let entry = wgpu::BindGroupEntry { binding: 0, resource: binding.resource(&buffer) };
    ///     let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
    ///         label: None,
    ///         layout,
    ///         entries: &[entry],
    ///     });
    ///     Ok((group, binding.first / 4)) // the index of the first float, for the shader
    /// }
    /// ```
    fn binding(&self, device: &Device) -> Result<Binding>;

    /// A copy of the elements on the host, in C order, when all that was submitted to the queue is done. All bytes
    /// between the lowest and the highest are fetched.
    ///
    /// # Errors
    /// As [`to_buffer_for_reading`](Self::to_buffer_for_reading), but a tensor without elements is copied;
    /// [`Error::OtherDevice`](crate::Error::OtherDevice) for a device and a queue that do not belong together, and
    /// for another device than that of a buffer that this crate made; [`Error::Lost`](crate::Error::Lost) for a
    /// device that was destroyed; [`Error::Wgpu`](crate::Error::Wgpu) for a buffer that was, and for what else wgpu
    /// says.
    ///
    /// Of a buffer that came by [`BufferExt`](crate::BufferExt) the device is not known. wgpu refuses another device
    /// of the same [`Instance`](wgpu::Instance), which is [`Error::Wgpu`](crate::Error::Wgpu). It does not know one
    /// of another instance, and then copies some other buffer, or panics: there the caller sees to it that they
    /// belong together. The same is true of buffers that this crate made, on other backends than Vulkan.
    ///
    /// # Panics
    /// wgpu panics when the device is lost while it is waited for, and, on other backends than Vulkan, when the queue is
    /// another device's.
    ///
    /// ```no_run
    /// use dlbridge_wgpu::{Result, TensorExt};
    ///
    /// fn read(
    ///     tensor: &dlbridge::Tensor,
    ///     device: &wgpu::Device,
    ///     queue: &wgpu::Queue,
    /// ) -> Result<dlbridge::Tensor> {
    ///     tensor.to_host(device, queue)
    /// }
    /// ```
    fn to_host(&self, device: &Device, queue: &Queue) -> Result<Tensor>;
}

impl Sealed for Tensor {}

impl TensorExt for Tensor {
    fn to_buffer(&self) -> Result<wgpu::Buffer> {
        let buffer = self.to_buffer_for_reading()?;
        match self.is_read_only() {
            true => Err(dlbridge::Error::ReadOnly.into()),
            false => Ok(buffer),
        }
    }

    fn to_buffer_for_reading(&self) -> Result<wgpu::Buffer> {
        let Memory { buffer, .. } = find(self)?;
        bytes(self, buffer.size())?;
        Ok(buffer)
    }

    fn binding(&self, device: &Device) -> Result<Binding> {
        let size = find(self)?.buffer.size();
        let alignment = device.limits().min_storage_buffer_offset_alignment;
        Ok(binding::of(bytes(self, size)?, self.byte_offset(), alignment))
    }

    fn to_host(&self, device: &Device, queue: &Queue) -> Result<Tensor> {
        check_device_type(self, DeviceType::WEB_GPU)?;
        copy::to_host(self, device, queue)
    }
}
