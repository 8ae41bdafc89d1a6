//! Tensors as buffers, and copies between the host and a buffer.

use std::ptr;

use dlbridge::{DeviceType, Element, Tensor, TensorRef, device_copy};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::memory::{Buffer, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE, ClMem};
use opencl3::types::CL_BLOCKING;

use crate::buffer::handle;
use crate::sealed::Sealed;
use crate::{Error, Result, buffer};

/// Tensors as buffers of [opencl3](opencl3::memory::Buffer).
pub trait TensorExt: Sealed {
    /// Returns the tensor's buffer, retained, without a copy. The first element begins at
    /// [`byte_offset`](Tensor::byte_offset), and the strides are the tensor's; the caller passes both to the kernel.
    ///
    /// # Errors
    /// [`Error::NotOpenCl`] for a tensor on another device, [`Error::Empty`] for a tensor without elements; an error
    /// for another dtype, and for a read-only tensor unless the buffer itself is read-only.
    ///
    /// ```no_run
    /// use dlbridge_opencl::{Result, TensorExt};
    /// use opencl3::memory::Buffer;
    ///
    /// fn memory(tensor: &dlbridge::Tensor) -> Result<Buffer<f32>> {
    ///     tensor.to_buffer()
    /// }
    /// ```
    fn to_buffer<T: Element>(&self) -> Result<Buffer<T>>;

    /// Returns the tensor's buffer as bytes, for elements of any dtype, including that of a read-only tensor.
    ///
    /// # Errors
    /// The errors of [`to_buffer`](Self::to_buffer), except those about the dtype and read-only tensors.
    ///
    /// # Safety
    /// The caller must not write to the buffer of a [read-only](Tensor::is_read_only) tensor, nor pass it to code that
    /// may write.
    ///
    /// ```no_run
    /// use dlbridge_opencl::{Result, TensorExt};
    /// use opencl3::memory::Buffer;
    ///
    /// fn constants(tensor: &dlbridge::Tensor) -> Result<Buffer<u8>> {
    ///     // SAFETY: the kernel declares it as `global const`.
    ///     unsafe { tensor.to_byte_buffer() }
    /// }
    /// ```
    unsafe fn to_byte_buffer(&self) -> Result<Buffer<u8>>;

    /// Copies the elements to the host, in C order, after all commands that are in the queue, even if the queue is out
    /// of order. The caller must wait for other queues. The function fetches all bytes between the lowest and the
    /// highest.
    ///
    /// # Errors
    /// [`Error::NotOpenCl`] for a tensor on another device; [`Error::OtherContext`] for a queue of another context;
    /// errors of OpenCL.
    ///
    /// ```no_run
    /// use dlbridge_opencl::{Result, TensorExt};
    /// use opencl3::command_queue::CommandQueue;
    ///
    /// fn read(tensor: &dlbridge::Tensor, queue: &CommandQueue) -> Result<dlbridge::Tensor> {
    ///     tensor.to_host(queue)
    /// }
    /// ```
    fn to_host(&self, queue: &opencl3::command_queue::CommandQueue) -> Result<Tensor>;
}

impl Sealed for Tensor {}

impl TensorExt for Tensor {
    fn to_buffer<T: Element>(&self) -> Result<Buffer<T>> {
        check_device(self)?;
        let dtype = self.dtype();
        if dtype != T::DATA_TYPE {
            return Err(dlbridge::Error::DataType { found: dtype, expected: T::DATA_TYPE }.into());
        }
        if dtype.is_subbyte() && !self.is_subbyte_padded() {
            return Err(dlbridge::Error::SubbytePacked { dtype }.into());
        }
        let buffer = handle(self)?;
        match self.is_read_only() && buffer.flags()? & CL_MEM_READ_ONLY == 0 {
            true => Err(dlbridge::Error::ReadOnly.into()),
            false => Ok(buffer),
        }
    }

    unsafe fn to_byte_buffer(&self) -> Result<Buffer<u8>> {
        check_device(self)?;
        handle(self)
    }

    fn to_host(&self, queue: &opencl3::command_queue::CommandQueue) -> Result<Tensor> {
        check_device(self)?;
        to_host(self, queue)
    }
}

fn check_device(tensor: &Tensor) -> Result<()> {
    let device = tensor.device();
    match device.device_type() == DeviceType::OPENCL {
        true => Ok(()),
        false => Err(Error::NotOpenCl { device }),
    }
}

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
