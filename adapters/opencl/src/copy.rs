//! Copies between the host and a buffer.

use std::ptr;

use dlbridge::{Tensor, TensorRef, device_copy};
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
    device_copy::in_c_order(source, |source| {
        let shape = device_copy::extents(&source);
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
    })
}

/// Copies an OpenCL tensor to the host.
pub(crate) fn to_host(tensor: &Tensor, queue: &CommandQueue) -> Result<Tensor> {
    if tensor.is_empty() {
        return device_copy::to_host(tensor, |_| Ok(()));
    }
    let memory: Buffer<u8> = buffer::handle(tensor)?;
    if queue.context()? != memory.context()? {
        return Err(Error::OtherContext);
    }
    let first = buffer::first_byte(tensor, memory.size()?)?;
    device_copy::to_host(tensor, |target| {
        // An out-of-order queue may run its commands in any order.
        queue.finish()?;
        // SAFETY: the buffer lives and has these bytes, as `first_byte` checked; the blocking call returns after the
        // copy.
        unsafe { queue.enqueue_read_buffer(&memory, CL_BLOCKING, first, target, &[]) }?;
        Ok(())
    })
}
