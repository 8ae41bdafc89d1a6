//! Copies between the host and a buffer.

use ash::vk;
use dlbridge::{Access, DataType, RawParts, Tensor, TensorRef};

use crate::buffer::{BufferParts, BufferRef, from_buffer};
use crate::device::{Buffer, Device};
use crate::{Error, Result, commands};

/// A tensor of the host, copied into a new buffer in C order; the copy is done when this returns, and commands that
/// are submitted later see it.
///
/// The buffer has memory of its own, which is the device's own memory where there is such, and whole words: a
/// shader that reads elements of one byte as words of four may read the last.
///
/// That is one `vkAllocateMemory` for each tensor, and one more for the length of each copy, either way. Drivers limit how
/// many there are at a time (`maxMemoryAllocationCount`): 4096 is all that some allow. A program with more tensors makes
/// parts of a large one, or takes buffers from an allocator of its own to [`from_buffer`].
///
/// # Errors
/// An error for a tensor that the CPU cannot read; what Vulkan says, which is `ERROR_TOO_MANY_OBJECTS` at that limit.
///
/// ```no_run
/// use dlbridge_vulkan::{Device, Result, to_device};
///
/// fn ramp(device: &Device) -> Result<dlbridge::Tensor> {
///     to_device(&[0.0_f32, 1.0, 2.0], device)
/// }
/// ```
pub fn to_device<'a>(source: impl Into<TensorRef<'a>>, device: &Device) -> Result<Tensor> {
    let source = source.into();
    let copy;
    let source = match source.is_c_contiguous() {
        true => source,
        false => {
            copy = source.to_copy()?;
            TensorRef::from(&copy)
        }
    };
    let bytes = source.as_bytes()?;
    let buffer = Buffer::storage(device, bytes.len())?;
    let (handle, size) = (buffer.handle(), buffer.size());
    let mut staging = Buffer::to_copy_from(device, size)?;
    staging.write(bytes)?;
    let region = vk::BufferCopy { size, ..Default::default() };
    // SAFETY: both were made with this device, of this size and for this.
    unsafe { commands::copy(device, staging.handle(), handle, region) }?;
    let shape: Vec<usize> = source.shape().iter().map(|&extent| extent as usize).collect();
    let parts = BufferParts {
        id: device.id(),
        subbyte_padded: source.is_subbyte_padded(),
        ..BufferParts::new(handle, size, source.dtype())
    };
    // SAFETY: the owner keeps the buffer, its memory and the device; the copy is done.
    unsafe { from_buffer(buffer, parts, shape) }
}

/// A copy of a tensor whose buffer was made with this device.
pub(crate) fn to_host(tensor: &Tensor, device: &Device) -> Result<Tensor> {
    if tensor.is_empty() {
        return nothing(tensor);
    }
    let source = BufferRef::of(tensor)?;
    let known = device.known(source.handle()).ok_or(Error::OtherDevice)?;
    if tensor.device().id() != device.id() {
        return Err(Error::OtherDevice);
    }
    source.check_within(known.size())?;
    // SAFETY: a buffer with this handle was made with this device, lives until the end of this, and is large enough.
    unsafe { fetch(tensor, source, device) }
}

/// A copy of a tensor whose buffer may have been made by anybody.
///
/// # Safety
/// The contract of [`TensorExt::to_host_unchecked`](crate::TensorExt::to_host_unchecked).
pub(crate) unsafe fn to_host_unchecked(tensor: &Tensor, device: &Device) -> Result<Tensor> {
    if tensor.is_empty() {
        return nothing(tensor);
    }
    // SAFETY: the caller guarantees what `fetch` demands, which is the contract of `TensorExt::to_host_unchecked`; a tensor
    // without elements has returned.
    unsafe { fetch(tensor, BufferRef::of(tensor)?, device) }
}

/// A tensor of the host without elements.
fn nothing(tensor: &Tensor) -> Result<Tensor> {
    let (shape, dtype) = (extents(tensor), tensor.dtype());
    Ok(match tensor.is_subbyte_padded() {
        true => Tensor::from_padded_bytes(Vec::<u8>::new(), dtype, shape, 0),
        false => Tensor::from_bytes(Vec::<u8>::new(), dtype, shape, 0),
    }?)
}

fn extents(tensor: &Tensor) -> Vec<usize> {
    tensor.shape().iter().map(|&extent| extent as usize).collect()
}

/// # Safety
/// The buffer is of this device, for copies from it, and has the tensor's elements, of which there are some.
unsafe fn fetch(tensor: &Tensor, source: BufferRef<'_>, device: &Device) -> Result<Tensor> {
    let range = source.bytes();
    let size = range.end - range.start;
    let mut staging = Buffer::to_copy_into(device, size)?;
    let region = vk::BufferCopy { src_offset: range.start, dst_offset: 0, size };
    // SAFETY: the caller guarantees a buffer of this device that has the bytes and is for copies from it. The one that they are
    // copied to was made above, of that size.
    unsafe { commands::copy(device, source.handle(), staging.handle(), region) }?;
    let bounds = TensorRef::from(tensor).byte_bounds();
    let mut bytes = Tensor::zeroed(DataType::UINT8, [bounds.len()])?;
    let mut target = bytes.view_mut::<u8>()?;
    staging.read(target.as_mut_slice().expect("new memory is adjacent"))?;
    let parts = RawParts {
        access: Access::Exclusive,
        subbyte_padded: tensor.is_subbyte_padded(),
        ..RawParts::new(bytes.data().wrapping_byte_offset(-bounds.start), tensor.dtype())
    };
    let strides = Some(tensor.strides());
    // SAFETY: the owner has all bytes from the lowest to the highest, alone, and is sound with any.
    let host = unsafe { Tensor::from_raw_parts(bytes, parts, &extents(tensor), strides) }?;
    match host.is_c_contiguous() {
        true => Ok(host),
        false => Ok(host.to_copy()?),
    }
}
