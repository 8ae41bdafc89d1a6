//! Buffers as tensors.

use std::ops::Range;
use std::ptr;

use dlbridge::{
    DataType, Device as TensorDevice, DeviceType, Element, RawParts, Tensor, TensorRef,
};
use wgpu::{BufferUsages, COPY_BUFFER_ALIGNMENT};

use crate::held::{self, Held, Memory};
use crate::sealed::Sealed;
use crate::{Error, Result};

/// The usages that the buffer of a tensor needs: shaders may use it, and it may be copied from and to.
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
    /// Returns the buffer as a tensor in C order, without a copy. The buffer lives as long as the tensor and everything
    /// that shares its memory.
    ///
    /// The buffer must not be mapped: unmap a buffer that was mapped at creation first. wgpu cannot report this; it
    /// refuses all submissions that use a mapped buffer, and [`to_host`](crate::TensorExt::to_host) returns that error.
    ///
    /// # Errors
    /// [`Error::TooSmall`] if the buffer has too few elements; [`Error::UnevenSize`] if its size is not a multiple of
    /// 4; [`Error::Usages`] if it lacks one of [`TENSOR_USAGES`].
    ///
    /// ```no_run
    /// use dlbridge_wgpu::{BufferExt, Result};
    ///
    /// fn matrix(buffer: wgpu::Buffer) -> Result<dlbridge::Tensor> {
    ///     buffer.into_tensor::<f32>([2, 3])
    /// }
    /// ```
    fn into_tensor<T: Element>(self, shape: impl AsRef<[usize]>) -> Result<Tensor>;

    /// Like [`into_tensor`](Self::into_tensor), for any dtype, with elements that begin `byte_offset` bytes into the
    /// buffer. Elements narrower than a byte are packed.
    ///
    /// # Errors
    /// The errors of [`into_tensor`](Self::into_tensor).
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

impl Sealed for wgpu::Buffer {}

impl BufferExt for wgpu::Buffer {
    fn into_tensor<T: Element>(self, shape: impl AsRef<[usize]>) -> Result<Tensor> {
        let parts = RawParts { subbyte_padded: T::DATA_TYPE.is_subbyte(), ..parts(T::DATA_TYPE) };
        over(Memory::new(self, None), parts, shape.as_ref())
    }

    fn into_tensor_of(
        self,
        dtype: DataType,
        byte_offset: u64,
        shape: impl AsRef<[usize]>,
    ) -> Result<Tensor> {
        let parts = RawParts { byte_offset, ..parts(dtype) };
        over(Memory::new(self, None), parts, shape.as_ref())
    }
}

pub(crate) fn check_device(tensor: &Tensor) -> Result<()> {
    let device = tensor.device();
    match device.device_type() == DeviceType::WEB_GPU {
        true => Ok(()),
        false => Err(Error::NotWebGpu { device }),
    }
}

/// Returns the memory of a tensor on `webgpu`, without checking the tensor's layout.
pub(crate) fn find(tensor: &Tensor) -> Result<Memory> {
    check_device(tensor)?;
    if tensor.is_empty() {
        return Err(Error::Empty);
    }
    held::find(tensor.data()).ok_or(Error::Foreign)
}

/// Returns the range from the lowest to the highest byte of a tensor's elements, after checking that its buffer of
/// `size` bytes has all of them.
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

/// Parts for elements of a dtype at the beginning of a buffer, which the caller sets later.
pub(crate) fn parts(dtype: DataType) -> RawParts {
    let device = TensorDevice::new(DeviceType::WEB_GPU, 0);
    RawParts { device, ..RawParts::new(ptr::null_mut(), dtype) }
}

/// Makes a tensor in C order over a buffer.
pub(crate) fn over(memory: Memory, parts: RawParts, shape: &[usize]) -> Result<Tensor> {
    let missing = TENSOR_USAGES - memory.buffer.usage();
    if !missing.is_empty() {
        return Err(Error::Usages { missing });
    }
    let size = memory.buffer.size();
    if !size.is_multiple_of(COPY_BUFFER_ALIGNMENT) {
        return Err(Error::UnevenSize { size });
    }
    let owner = Held::new(memory);
    let parts = RawParts { data: owner.data(), ..parts };
    // SAFETY: the owner keeps the buffer, and wgpu initialises all its bytes; the crate never dereferences its
    // address in `data`; the CPU makes no view of device data, and the check below refuses elements past the end of the
    // buffer before anything uses the tensor.
    let tensor = unsafe { Tensor::from_raw_parts(owner, parts, shape, None::<&[i64]>) }?;
    if !tensor.is_empty() {
        bytes(&tensor, size)?;
    }
    Ok(tensor)
}
