//! Buffers as tensors, and tensors as buffers.
//!
//! - **Handle.** The data of a tensor on OpenCL is a `cl_mem`, which lives as long as the tensor.

use dlbridge::{Access, DataType, DeviceType, Element, RawParts, Tensor, TensorRef};
use opencl3::error_codes::ClError;
use opencl3::memory::{
    Buffer, CL_MEM_OBJECT_BUFFER, CL_MEM_READ_ONLY, ClMem, cl_mem, retain_mem_object,
};

use crate::sealed::Sealed;
use crate::{Error, Result, copy, device};

/// Buffers of [opencl3](opencl3::memory::Buffer) as tensors.
pub trait BufferExt: Sealed + Sized {
    /// The type of the elements.
    type Element: Element;

    /// The buffer as a tensor in C order, without a copy. It is released with the tensor, and with all that was
    /// made of it without a copy.
    ///
    /// # Errors
    /// [`Error::TooSmall`] for a buffer of fewer elements; [`Error::NotABuffer`] for an image in its place.
    ///
    /// ```no_run
    /// use dlbridge_opencl::{BufferExt, Result};
    /// use opencl3::memory::Buffer;
    ///
    /// fn matrix(buffer: Buffer<f32>) -> Result<dlbridge::Tensor> {
    ///     buffer.into_tensor([2, 3])
    /// }
    /// ```
    fn into_tensor(self, shape: impl AsRef<[usize]>) -> Result<Tensor> {
        self.to_tensor(shape)
    }

    /// As [`into_tensor`](Self::into_tensor), of any dtype, and with elements that begin `byte_offset` bytes in.
    /// Those that are narrower than a byte are packed.
    ///
    /// # Errors
    /// As [`into_tensor`](Self::into_tensor).
    ///
    /// ```no_run
    /// use dlbridge::DataType;
    /// use dlbridge_opencl::{BufferExt, Result};
    /// use opencl3::memory::Buffer;
    ///
    /// fn halves(buffer: Buffer<u8>) -> Result<dlbridge::Tensor> {
    ///     buffer.into_tensor_of(DataType::BFLOAT16, 64, [16])
    /// }
    /// ```
    fn into_tensor_of(
        self,
        dtype: DataType,
        byte_offset: u64,
        shape: impl AsRef<[usize]>,
    ) -> Result<Tensor>;

    /// A tensor over the memory of a buffer that stays, which is retained.
    ///
    /// # Errors
    /// As [`into_tensor`](Self::into_tensor).
    ///
    /// ```no_run
    /// use dlbridge_opencl::{BufferExt, Result};
    /// use opencl3::memory::Buffer;
    ///
    /// fn lend(buffer: &Buffer<f32>) -> Result<dlbridge::Tensor> {
    ///     buffer.to_tensor([6])
    /// }
    /// ```
    fn to_tensor(&self, shape: impl AsRef<[usize]>) -> Result<Tensor>;
}

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

impl<T: Element> Sealed for Buffer<T> {}
impl Sealed for Tensor {}

impl<T: Element> BufferExt for Buffer<T> {
    type Element = T;

    fn into_tensor_of(
        self,
        dtype: DataType,
        byte_offset: u64,
        shape: impl AsRef<[usize]>,
    ) -> Result<Tensor> {
        let tensor =
            retained(&self).and_then(|buffer| over(buffer, dtype, false, byte_offset, shape));
        drop(self);
        tensor
    }

    fn to_tensor(&self, shape: impl AsRef<[usize]>) -> Result<Tensor> {
        over(retained(self)?, T::DTYPE, T::DTYPE.is_subbyte(), 0, shape)
    }
}

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

/// The buffer of a tensor that is on OpenCL, retained.
pub(crate) fn handle<T>(tensor: &Tensor) -> Result<Buffer<T>> {
    if tensor.is_empty() {
        return Err(Error::Empty);
    }
    // SAFETY: Handle.
    let buffer = unsafe { retain(tensor.data()) }?;
    check_buffer(&buffer)?;
    Ok(buffer)
}

/// Refuses what is no buffer, although its type here says so.
fn check_buffer<T>(memory: &Buffer<T>) -> Result<()> {
    match memory.mem_type()? == CL_MEM_OBJECT_BUFFER {
        true => Ok(()),
        false => Err(Error::NotABuffer),
    }
}

/// The lowest byte of a tensor's elements in its buffer of so many bytes, which has all of them.
pub(crate) fn first_byte(tensor: &Tensor, size: usize) -> Result<usize> {
    let bounds = TensorRef::from(tensor).byte_bounds();
    // The core has checked that neither overflows.
    let offset = tensor.byte_offset() as i64;
    let (first, end) = (offset + bounds.start as i64, offset + bounds.end as i64);
    let within = u64::try_from(end).is_ok_and(|end| end <= size as u64);
    match usize::try_from(first) {
        Ok(first) if within => Ok(first),
        _ => Err(Error::TooSmall { first, end, size }),
    }
}

/// A second reference on a buffer.
fn retained<T>(buffer: &Buffer<T>) -> Result<Buffer<u8>> {
    // SAFETY: the buffer holds a reference.
    unsafe { retain(buffer.get()) }
}

/// # Safety
/// A `cl_mem` that lives.
unsafe fn retain<T>(memory: cl_mem) -> Result<Buffer<T>> {
    // SAFETY: by contract.
    unsafe { retain_mem_object(memory) }.map_err(ClError)?;
    Ok(Buffer::new(memory))
}

/// A tensor in C order over a buffer.
pub(crate) fn over(
    buffer: Buffer<u8>,
    dtype: DataType,
    subbyte_padded: bool,
    byte_offset: u64,
    shape: impl AsRef<[usize]>,
) -> Result<Tensor> {
    check_buffer(&buffer)?;
    let size = buffer.size()?;
    let access = match buffer.flags()? & CL_MEM_READ_ONLY {
        0 => Access::Shared,
        _ => Access::ReadOnly,
    };
    let device = device::of_buffer(&buffer)?;
    let parts = RawParts {
        device,
        byte_offset,
        access,
        subbyte_padded,
        ..RawParts::new(buffer.get(), dtype)
    };
    // SAFETY: a `cl_mem` that the owner holds a reference on; no view is made of what is on a device, and what is
    // behind the buffer's end is refused below, before anybody has the tensor.
    let tensor = unsafe { Tensor::from_raw_parts(buffer, parts, shape.as_ref(), None::<&[i64]>) }?;
    if !tensor.is_empty() {
        first_byte(&tensor, size)?;
    }
    Ok(tensor)
}
