//! Copies between the host and a buffer.

use std::ptr;

use dlbridge::{Access, DataType, RawParts, Tensor, TensorRef};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, ClMem};
use opencl3::types::CL_BLOCKING;

use crate::{Error, Result, buffer};

/// A tensor of the host, copied into a new buffer in C order; the copy is done when this returns.
///
/// # Errors
/// An error for a tensor that the CPU cannot read; [`Error::OtherContext`] for a queue of another context; what
/// OpenCL says.
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
    // OpenCL has no buffer of nothing.
    let size = bytes.len().max(1);
    // SAFETY: the context lives, and no memory of the host is named.
    let mut buffer =
        unsafe { Buffer::<u8>::create(context, CL_MEM_READ_WRITE, size, ptr::null_mut()) }?;
    if !bytes.is_empty() {
        // SAFETY: both have so many bytes, and the call returns when they are copied.
        unsafe { queue.enqueue_write_buffer(&mut buffer, CL_BLOCKING, 0, bytes, &[]) }?;
    }
    buffer::over(buffer, source.dtype(), source.is_subbyte_padded(), 0, shape)
}

/// A copy of a tensor that is on OpenCL.
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
    let target = target.as_mut_slice().expect("new memory is adjacent");
    // A queue may run its commands in another order than it got them.
    queue.finish()?;
    // SAFETY: a buffer that lives and has these bytes; the call returns when they are copied.
    unsafe { queue.enqueue_read_buffer(&memory, CL_BLOCKING, first, target, &[]) }?;
    let parts = RawParts {
        access: Access::Exclusive,
        subbyte_padded: tensor.is_subbyte_padded(),
        ..RawParts::new(bytes.data().wrapping_byte_offset(-bounds.start), tensor.dtype())
    };
    // SAFETY: the owner has all bytes from the lowest to the highest, alone, and is sound with any.
    let host = unsafe { Tensor::from_raw_parts(bytes, parts, &shape, Some(tensor.strides())) }?;
    match host.is_c_contiguous() {
        true => Ok(host),
        false => Ok(host.to_copy()?),
    }
}
