//! Copies between the host and a buffer.

use std::ptr;

use dlbridge::{Access, DataType, RawParts, Tensor, TensorRef};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, ClMem};
use opencl3::types::CL_BLOCKING;

use crate::{Error, Result, buffer};

/// Copies a host tensor into a new buffer, in C order. Returns after the copy.
///
/// # Errors
/// An error for a tensor that the CPU cannot read; [`Error::OtherContext`] for a queue of another context; errors of
/// OpenCL.
///
/// ```no_run
/// use dlbridge_opencl::{Result, to_device};
/// use opencl3::command_queue::CommandQueue;
/// use opencl3::context::Context;
///
/// fn ramp(context: &Context, queue: &CommandQueue) -> Result<dlbridge::Tensor> {
///     to_device(&[0.0_f32, 1.0, 2.0], context, queue)
/// }
/// ```
pub fn to_device<'a>(
    source: impl Into<TensorRef<'a>>,
    context: &Context,
    queue: &CommandQueue,
) -> Result<Tensor> {
    let source = source.into();
    if queue.context()? != context.get() {
        return Err(Error::OtherContext);
    }
    let copy;
    let source = match source.is_c_contiguous() {
        true => source,
        false => {
            copy = source.to_copy()?;
            TensorRef::from(&copy)
        }
    };
    let shape: Vec<usize> = source.shape().iter().map(|&extent| extent as usize).collect();
    let bytes = source.as_bytes()?;
    // OpenCL does not allow empty buffers.
    let size = bytes.len().max(1);
    // SAFETY: the context lives, and the call names no host memory.
    let mut buffer =
        unsafe { Buffer::<u8>::create(context, CL_MEM_READ_WRITE, size, ptr::null_mut()) }?;
    if !bytes.is_empty() {
        // SAFETY: the buffer has `bytes.len()` bytes, and the blocking call returns after the copy.
        unsafe { queue.enqueue_write_buffer(&mut buffer, CL_BLOCKING, 0, bytes, &[]) }?;
    }
    buffer::over(buffer, source.dtype(), source.is_subbyte_padded(), 0, shape)
}

/// Copies an OpenCL tensor to the host.
pub(crate) fn to_host(tensor: &Tensor, queue: &CommandQueue) -> Result<Tensor> {
    let shape: Vec<usize> = tensor.shape().iter().map(|&extent| extent as usize).collect();
    if tensor.is_empty() {
        let nothing = Vec::<u8>::new();
        return Ok(match tensor.is_subbyte_padded() {
            true => Tensor::from_padded_bytes(nothing, tensor.dtype(), shape, 0),
            false => Tensor::from_bytes(nothing, tensor.dtype(), shape, 0),
        }?);
    }
    let memory: Buffer<u8> = buffer::handle(tensor)?;
    if queue.context()? != memory.context()? {
        return Err(Error::OtherContext);
    }
    let bounds = TensorRef::from(tensor).byte_bounds();
    let first = buffer::first_byte(tensor, memory.size()?)?;
    let mut bytes = Tensor::zeroed(DataType::UINT8, [bounds.len()])?;
    let mut target = bytes.view_mut::<u8>()?;
    let target = target.as_mut_slice().expect("new memory is contiguous");
    // An out-of-order queue may run its commands in any order.
    queue.finish()?;
    // SAFETY: the buffer lives and has these bytes, as `first_byte` checked; the blocking call returns after the copy.
    unsafe { queue.enqueue_read_buffer(&memory, CL_BLOCKING, first, target, &[]) }?;
    let parts = RawParts {
        access: Access::Exclusive,
        subbyte_padded: tensor.is_subbyte_padded(),
        ..RawParts::new(bytes.data().wrapping_byte_offset(-bounds.start), tensor.dtype())
    };
    // SAFETY: `bytes` has all bytes from the lowest to the highest element, is the only owner, and accepts any values.
    let host = unsafe { Tensor::from_raw_parts(bytes, parts, &shape, Some(tensor.strides())) }?;
    match host.is_c_contiguous() {
        true => Ok(host),
        false => Ok(host.to_copy()?),
    }
}
