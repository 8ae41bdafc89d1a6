//! Tensors as buffers, or copied to the host.

use dlbridge::{DeviceType, Element, Tensor};
use opencl3::memory::{Buffer, CL_MEM_READ_ONLY, ClMem};

use crate::buffer::handle;
use crate::sealed::Sealed;
use crate::{Error, Result, copy};

/// Tensors as buffers of [opencl3](opencl3::memory::Buffer).
pub trait TensorExt: Sealed {
    /// The tensor's buffer, retained: the same memory. The first element is
    /// [`byte_offset`](Tensor::byte_offset) bytes in, and the strides are the tensor's; a kernel is told both.
    ///
    /// # Errors
    /// [`Error::NotOpenCl`] for a tensor that is somewhere else, [`Error::Empty`] for one that has no memory; an
    /// error for one of another dtype, and for one that must not be written, unless the buffer itself says so.
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

    /// The tensor's buffer as bytes, for elements of any dtype, and also of a tensor that must not be written.
    ///
    /// # Errors
    /// As [`to_buffer`](Self::to_buffer), but for the dtype and what must not be written.
    ///
    /// # Safety
    /// Nobody writes to the buffer of a tensor that is [read-only](Tensor::is_read_only), or hands it on as one that may
    /// be written.
    ///
    /// ```no_run
    /// use dlbridge_opencl::{Result, TensorExt};
    /// use opencl3::memory::Buffer;
    ///
    /// fn constants(tensor: &dlbridge::Tensor) -> Result<Buffer<u8>> {
    ///     // SAFETY: the kernel has it as `global const`.
    ///     unsafe { tensor.to_byte_buffer() }
    /// }
    /// ```
    unsafe fn to_byte_buffer(&self) -> Result<Buffer<u8>>;

    /// A copy of the elements on the host, in C order, when all commands that are in the queue are done, in whatever
    /// order it runs them. What is in other queues is the caller's to wait for. All bytes between the lowest and
    /// the highest are fetched.
    ///
    /// # Errors
    /// [`Error::NotOpenCl`] for a tensor that is somewhere else; [`Error::OtherContext`] for a queue that cannot
    /// reach it; what OpenCL says.
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
        if dtype != T::DTYPE {
            return Err(dlbridge::Error::DataType { found: dtype, expected: T::DTYPE }.into());
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
        copy::to_host(self, queue)
    }
}

fn check_device(tensor: &Tensor) -> Result<()> {
    let device = tensor.device();
    match device.device_type() == DeviceType::OPENCL {
        true => Ok(()),
        false => Err(Error::NotOpenCl { device }),
    }
}
