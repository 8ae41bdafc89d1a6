//! Tensors as buffers, and the range of a buffer that a shader binds.

use std::num::NonZeroU64;
use std::ops::Range;

use dlbridge::Tensor;
use wgpu::{BindingResource, BufferBinding, COPY_BUFFER_ALIGNMENT, Device, Queue};

use crate::buffer::{bytes, check_device, find};
use crate::held::Memory;
use crate::sealed::Sealed;
use crate::{Result, copy};

/// Tensors as buffers of [wgpu](wgpu::Buffer).
pub trait TensorExt: Sealed {
    /// Returns the tensor's buffer, without a copy. The element at index zero begins at
    /// [`byte_offset`](Tensor::byte_offset), and the strides are the tensor's; the caller passes both to the shader, or
    /// uses [`binding`](Self::binding) for the offset.
    ///
    /// # Errors
    /// [`Error::NotWebGpu`](crate::Error::NotWebGpu) for a tensor on another device;
    /// [`Error::Foreign`](crate::Error::Foreign) for a tensor on `webgpu` that this crate did not make;
    /// [`Error::Empty`](crate::Error::Empty) for a tensor without elements; [`Error::TooSmall`](crate::Error::TooSmall)
    /// if the buffer lacks some elements; an error for a read-only tensor.
    ///
    /// ```no_run
    /// use dlbridge_wgpu::{Result, TensorExt};
    ///
    /// fn memory(tensor: &dlbridge::Tensor) -> Result<wgpu::Buffer> {
    ///     tensor.to_buffer()
    /// }
    /// ```
    fn to_buffer(&self) -> Result<wgpu::Buffer>;

    /// Like [`to_buffer`](Self::to_buffer), but also accepts a read-only tensor. wgpu buffers are always writable: the
    /// caller binds it as `var<storage, read>`, or copies from it, and must not export it as a writable tensor.
    /// Otherwise others see unexpected elements, but memory stays sound.
    ///
    /// # Errors
    /// The errors of [`to_buffer`](Self::to_buffer), except the one for read-only tensors.
    ///
    /// ```no_run
    /// use dlbridge_wgpu::{Result, TensorExt};
    ///
    /// fn constants(tensor: &dlbridge::Tensor) -> Result<wgpu::Buffer> {
    ///     tensor.to_buffer_for_reading()
    /// }
    /// ```
    fn to_buffer_for_reading(&self) -> Result<wgpu::Buffer>;

    /// Returns the range of the buffer that a shader binds for this tensor. A binding begins at a multiple of the
    /// device's [`min_storage_buffer_offset_alignment`](wgpu::Limits::min_storage_buffer_offset_alignment), but a slice
    /// of a tensor begins anywhere.
    ///
    /// # Errors
    /// The errors of [`to_buffer_for_reading`](Self::to_buffer_for_reading).
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

    /// Copies the elements to the host, in C order, after all submissions to the queue. The function fetches all bytes
    /// between the lowest and the highest.
    ///
    /// # Errors
    /// - The errors of [`to_buffer_for_reading`](Self::to_buffer_for_reading), but a tensor without elements is copied.
    /// - [`Error::OtherDevice`](crate::Error::OtherDevice) if the queue belongs to another device, or this crate made
    ///   the buffer with another device.
    /// - [`Error::Lost`](crate::Error::Lost) if the device was destroyed.
    /// - [`Error::Wgpu`](crate::Error::Wgpu) if the buffer was destroyed, and for other errors of wgpu.
    ///
    /// The device of a buffer from [`BufferExt`](crate::BufferExt) is not known. wgpu refuses another device of the
    /// same [`Instance`](wgpu::Instance), with [`Error::Wgpu`](crate::Error::Wgpu). It does not detect a device of
    /// another instance, and then copies some other buffer, or panics: the caller must pass the right device. The same
    /// is true of buffers that this crate made, on backends other than Vulkan.
    ///
    /// # Panics
    /// wgpu panics if the device is lost during the wait, and, on backends other than Vulkan, if the queue belongs to
    /// another device.
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
        Ok(binding_of(bytes(self, size)?, self.byte_offset(), alignment))
    }

    fn to_host(&self, device: &Device, queue: &Queue) -> Result<Tensor> {
        check_device(self)?;
        copy::to_host(self, device, queue)
    }
}

/// The range of a buffer with all elements of a tensor, and the tensor's position in it; made by
/// [`TensorExt::binding`](crate::TensorExt::binding).
///
/// ```no_run
/// use dlbridge_wgpu::{Result, TensorExt, to_device};
///
/// fn second_half(device: &wgpu::Device) -> Result<()> {
///     let tensor = to_device(&[0.0_f32; 200], device)?.slice(0, 100..200)?;
///     let binding = tensor.binding(device)?;
///     // If bindings must begin at multiples of 256:
///     assert_eq!((binding.offset, binding.size.get(), binding.first), (256, 544, 144));
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Binding {
    /// The beginning of the range in the buffer, in bytes; a multiple of the device's alignment.
    pub offset: u64,
    /// The size of the range in bytes, a multiple of 4.
    pub size: NonZeroU64,
    /// The distance from the beginning of the range to the element at index zero, in bytes. With negative strides that
    /// is not the lowest element.
    pub first: u64,
}

impl Binding {
    /// Returns the binding of this range in the tensor's buffer.
    ///
    /// ```no_run
    /// use dlbridge_wgpu::{Binding, Result, TensorExt};
    ///
    /// fn bind<'a>(
    ///     tensor: &dlbridge::Tensor,
    ///     buffer: &'a wgpu::Buffer,
    ///     device: &wgpu::Device,
    /// ) -> Result<wgpu::BindingResource<'a>> {
    ///     Ok(tensor.binding(device)?.resource(buffer))
    /// }
    /// ```
    pub fn resource<'a>(&self, buffer: &'a wgpu::Buffer) -> BindingResource<'a> {
        BindingResource::Buffer(BufferBinding {
            buffer,
            offset: self.offset,
            size: Some(self.size),
        })
    }
}

/// Returns the range for `bytes`, which must not be empty, with the element at index zero at byte `zero`.
fn binding_of(bytes: Range<u64>, zero: u64, alignment: u32) -> Binding {
    let offset = bytes.start - bytes.start % u64::from(alignment);
    // This stays within the buffer, whose size is a multiple of 4.
    let size = (bytes.end - offset).next_multiple_of(COPY_BUFFER_ALIGNMENT);
    let size = NonZeroU64::new(size).expect("a tensor with elements has bytes");
    Binding { offset, size, first: zero - offset }
}
