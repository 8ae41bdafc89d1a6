//! Copies between the host and a buffer.

use ash::vk;
use dlbridge::{Tensor, TensorRef, device_copy};

use crate::buffer::{BufferParts, BufferRef, from_buffer};
use crate::device::{Buffer, Device};
use crate::{Error, Result, commands};

/// Copies a host tensor into a new buffer, in C order. Returns after the copy; commands that are submitted later see
/// the data.
///
/// The buffer has its own memory, device-local if the device has such memory. Its size is a multiple of 4, so a shader
/// that reads one-byte elements as four-byte words may read the last word.
///
/// The function calls `vkAllocateMemory` once for each tensor, and once more during each copy in either direction.
/// Drivers limit the number of allocations at a time (`maxMemoryAllocationCount`); some allow only 4096. A program with
/// more tensors slices a large one, or passes buffers of its own allocator to [`from_buffer`].
///
/// # Errors
/// An error for a tensor that the CPU cannot read; errors of Vulkan, such as `ERROR_TOO_MANY_OBJECTS` at that limit.
///
/// ```no_run
/// use dlbridge_vulkan::{Device, Result, to_device};
///
/// fn ramp(device: &Device) -> Result<dlbridge::Tensor> {
///     to_device(&[0.0_f32, 1.0, 2.0], device)
/// }
/// ```
pub fn to_device<'a>(source: impl Into<TensorRef<'a>>, device: &Device) -> Result<Tensor> {
    device_copy::in_c_order(source.into(), |source| {
        let bytes = source.as_bytes()?;
        let buffer = Buffer::storage(device, bytes.len())?;
        let (handle, size) = (buffer.handle(), buffer.size());
        let mut staging = Buffer::to_copy_from(device, size)?;
        staging.write(bytes)?;
        let region = vk::BufferCopy { size, ..Default::default() };
        // SAFETY: both buffers were made with this device, with this size and for this use.
        unsafe { commands::copy(device, staging.handle(), handle, region) }?;
        let shape = device_copy::extents(&source);
        let parts = BufferParts {
            id: device.id(),
            subbyte_padded: source.is_subbyte_padded(),
            ..BufferParts::new(handle, size, source.dtype())
        };
        // SAFETY: the owner keeps the buffer, its memory and the device; the copy has finished.
        unsafe { from_buffer(buffer, parts, shape) }
    })
}

/// Copies a tensor whose buffer was made with this device.
pub(crate) fn to_host(tensor: &Tensor, device: &Device) -> Result<Tensor> {
    if tensor.is_empty() {
        return device_copy::to_host(tensor, |_| Ok(()));
    }
    let source = BufferRef::of(tensor)?;
    let known = device.known(source.handle()).ok_or(Error::OtherDevice)?;
    if tensor.device().id() != device.id() {
        return Err(Error::OtherDevice);
    }
    source.check_within(known.size())?;
    // SAFETY: a buffer with this handle was made with this device; `known` keeps it alive; `check_within` compared its
    // size.
    unsafe { fetch(tensor, source, device) }
}

/// Copies a tensor whose buffer any code may have made.
///
/// # Safety
/// The contract of [`TensorExt::to_host_unchecked`](crate::TensorExt::to_host_unchecked).
pub(crate) unsafe fn to_host_unchecked(tensor: &Tensor, device: &Device) -> Result<Tensor> {
    if tensor.is_empty() {
        return device_copy::to_host(tensor, |_| Ok(()));
    }
    // SAFETY: the caller fulfils the contract of `TensorExt::to_host_unchecked`, which includes that of `fetch`; the
    // tensor has elements, because an empty one has returned.
    unsafe { fetch(tensor, BufferRef::of(tensor)?, device) }
}

/// # Safety
/// The buffer must belong to this device, allow copies from it, and have the tensor's elements, at least one.
unsafe fn fetch(tensor: &Tensor, source: BufferRef<'_>, device: &Device) -> Result<Tensor> {
    let range = source.bytes();
    let size = range.end - range.start;
    let mut staging = Buffer::to_copy_into(device, size)?;
    let region = vk::BufferCopy { src_offset: range.start, dst_offset: 0, size };
    // SAFETY: the caller guarantees a buffer of this device that has the bytes and allows copies from it. The target
    // was made above, with that size.
    unsafe { commands::copy(device, source.handle(), staging.handle(), region) }?;
    device_copy::to_host(tensor, |bytes| staging.read(bytes))
}
