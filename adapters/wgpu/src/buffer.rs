//! Buffers as tensors, and tensors as buffers.

use std::ops::Range;
use std::ptr;

use dlbridge::{
    DataType, Device as TensorDevice, DeviceType, Element, RawParts, Tensor, TensorRef,
};
use wgpu::{BufferUsages, COPY_BUFFER_ALIGNMENT, Device, Queue};

use crate::held::{self, Held, Memory};
use crate::sealed::Sealed;
use crate::{Binding, Error, Result, binding, copy};

/// What the buffer of a tensor must have been created for: a shader may use it, and it may be copied from and to.
///
/// ```no_run
/// fn six_floats(device: &wgpu::Device) -> wgpu::Buffer {
///     device.create_buffer(&wgpu::BufferDescriptor {
///         label: Some("six floats"),
///         size: 24,
///         usage: dlbridge_wgpu::TENSOR_USAGES,
///         mapped_at_creation: false,
///     })
/// }
/// ```
pub const TENSOR_USAGES: BufferUsages =
    BufferUsages::STORAGE.union(BufferUsages::COPY_SRC).union(BufferUsages::COPY_DST);

/// Buffers of [wgpu](wgpu::Buffer) as tensors.
pub trait BufferExt: Sealed + Sized {
    /// The buffer as a tensor in C order, without a copy. It lives as long as the tensor, and all that was made of it
    /// without a copy.
    ///
    /// It is not mapped, which wgpu lets nobody ask: one that was mapped at creation is unmapped first. Else wgpu refuses all
    /// that is submitted with it, which [`to_host`](TensorExt::to_host) returns.
    ///
    /// # Errors
    /// [`Error::TooSmall`] for a buffer of fewer elements; [`Error::UnevenSize`] for one whose size is no multiple of
    /// 4; [`Error::Usages`] for one that was created for less than [`TENSOR_USAGES`].
    ///
    /// ```no_run
    /// use dlbridge_wgpu::{BufferExt, Result};
    ///
    /// fn matrix(buffer: wgpu::Buffer) -> Result<dlbridge::Tensor> {
    ///     buffer.into_tensor::<f32>([2, 3])
    /// }
    /// ```
    fn into_tensor<T: Element>(self, shape: impl AsRef<[usize]>) -> Result<Tensor>;

    /// As [`into_tensor`](Self::into_tensor), of any dtype, and with elements that begin `byte_offset` bytes in.
    /// Those that are narrower than a byte are packed.
    ///
    /// # Errors
    /// As [`into_tensor`](Self::into_tensor).
    ///
    /// ```no_run
    /// use dlbridge::DataType;
    /// use dlbridge_wgpu::{BufferExt, Result};
    ///
    /// fn halves(buffer: &wgpu::Buffer) -> Result<dlbridge::Tensor> {
    ///     buffer.clone().into_tensor_of(DataType::BFLOAT16, 64, [16])
    /// }
    /// ```
    fn into_tensor_of(
        self,
        dtype: DataType,
        byte_offset: u64,
        shape: impl AsRef<[usize]>,
    ) -> Result<Tensor>;
}

/// Tensors as buffers of [wgpu](wgpu::Buffer).
pub trait TensorExt: Sealed {
    /// The tensor's buffer: the same memory. The element at index zero is [`byte_offset`](Tensor::byte_offset) bytes in, and
    /// the strides are the tensor's; a shader is told both, or what [`binding`](Self::binding) makes of the first.
    ///
    /// # Errors
    /// [`Error::OtherDeviceType`] for a tensor that is somewhere else; [`Error::Foreign`] for one on `webgpu` that this
    /// crate has not made; [`Error::Empty`] for one that has no memory; [`Error::TooSmall`] if the elements are not in the
    /// buffer; an error for one that must not be written.
    ///
    /// ```no_run
    /// use dlbridge_wgpu::{Result, TensorExt};
    ///
    /// fn memory(tensor: &dlbridge::Tensor) -> Result<wgpu::Buffer> {
    ///     tensor.to_buffer()
    /// }
    /// ```
    fn to_buffer(&self) -> Result<wgpu::Buffer>;

    /// As [`to_buffer`](Self::to_buffer), also of a tensor that must not be written. wgpu has no buffer that cannot be:
    /// who calls this binds it as `var<storage, read>`, or copies from it, and does not make an own tensor of it that says
    /// less. Else others find elements that they did not expect, but memory stays sound.
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
    /// [`Error::OtherDevice`] for a device and a queue that do not belong together, and for another device than that of
    /// a buffer that this crate made; [`Error::Lost`] for a device that was destroyed; [`Error::Wgpu`] for a buffer that was,
    /// and for what else wgpu says.
    ///
    /// Of a buffer that came by [`BufferExt`] the device is not known. wgpu refuses another device of the same
    /// [`Instance`](wgpu::Instance), which is [`Error::Wgpu`]. It does not know one of another instance, and then copies
    /// some other buffer, or panics: there the caller sees to it that they belong together. The same is true of buffers that
    /// this crate made, on other backends than Vulkan.
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

impl Sealed for wgpu::Buffer {}
impl Sealed for Tensor {}

impl BufferExt for wgpu::Buffer {
    fn into_tensor<T: Element>(self, shape: impl AsRef<[usize]>) -> Result<Tensor> {
        let parts = RawParts { subbyte_padded: T::DTYPE.is_subbyte(), ..parts(T::DTYPE) };
        over(Memory::new(self, None), parts, shape.as_ref(), None)
    }

    fn into_tensor_of(
        self,
        dtype: DataType,
        byte_offset: u64,
        shape: impl AsRef<[usize]>,
    ) -> Result<Tensor> {
        let parts = RawParts { byte_offset, ..parts(dtype) };
        over(Memory::new(self, None), parts, shape.as_ref(), None)
    }
}

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

pub(crate) fn check_device_type(tensor: &Tensor, expected: DeviceType) -> Result<()> {
    let found = tensor.device();
    match found.device_type() == expected {
        true => Ok(()),
        false => Err(Error::OtherDeviceType { found, expected }),
    }
}

/// The buffer of a tensor on `webgpu`, whatever the tensor says of its elements.
pub(crate) fn find(tensor: &Tensor) -> Result<Memory> {
    check_device_type(tensor, DeviceType::WEB_GPU)?;
    if tensor.is_empty() {
        return Err(Error::Empty);
    }
    held::find(tensor.data()).ok_or(Error::Foreign)
}

/// The bytes from the lowest of a tensor's elements to the highest, in its buffer of so many bytes, which has all of them.
pub(crate) fn bytes(tensor: &Tensor, size: u64) -> Result<Range<u64>> {
    let bounds = TensorRef::from(tensor).byte_bounds();
    // The core has checked that neither overflows.
    let offset = tensor.byte_offset() as i64;
    let (first, end) = (offset + bounds.start as i64, offset + bounds.end as i64);
    match (u64::try_from(first), u64::try_from(end)) {
        (Ok(first), Ok(end)) if end <= size => Ok(first..end),
        _ => Err(Error::TooSmall { first, end, size }),
    }
}

/// Elements of a dtype at the beginning of a buffer that is not known yet.
pub(crate) fn parts(dtype: DataType) -> RawParts {
    let device = TensorDevice::new(DeviceType::WEB_GPU, 0);
    RawParts { device, ..RawParts::new(ptr::null_mut(), dtype) }
}

/// Refuses a size that WebGPU neither copies nor binds.
pub(crate) fn check_size(size: u64) -> Result<()> {
    match size.is_multiple_of(COPY_BUFFER_ALIGNMENT) {
        true => Ok(()),
        false => Err(Error::UnevenSize { size }),
    }
}

/// A tensor over a buffer.
pub(crate) fn over<S: Copy + TryInto<i64>>(
    memory: Memory,
    parts: RawParts,
    shape: &[S],
    strides: Option<&[i64]>,
) -> Result<Tensor> {
    let missing = TENSOR_USAGES - memory.buffer.usage();
    if !missing.is_empty() {
        return Err(Error::Usages { missing });
    }
    let size = memory.buffer.size();
    check_size(size)?;
    let owner = Held::new(memory);
    let parts = RawParts { data: owner.data(), ..parts };
    // SAFETY: the owner keeps the buffer, in which wgpu leaves no byte uninitialised, and whose address as data is never
    // followed; no view is made of what is on a device, and what is behind the buffer's end is refused below, before
    // anybody has the tensor.
    let tensor = unsafe { Tensor::from_raw_parts(owner, parts, shape, strides) }?;
    if !tensor.is_empty() {
        bytes(&tensor, size)?;
    }
    Ok(tensor)
}
