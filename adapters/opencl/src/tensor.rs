//! Tensors as buffers, or copied to the host.

use dlbridge::{DeviceType, Element, Tensor};
use opencl3::memory::{Buffer, CL_MEM_READ_ONLY, ClMem};

use crate::buffer::handle;
use crate::sealed::Sealed;
use crate::{Error, Result, copy};

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
