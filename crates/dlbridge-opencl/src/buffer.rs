//! Buffers as tensors, and tensors as buffers.
//!
//! - **Handle.** The data of a tensor on OpenCL is a `cl_mem`, which lives as long as the tensor.

use dlbridge::{Access, DataType, DeviceType, Element, RawParts, Tensor, TensorRef};
use opencl3::error_codes::ClError;
use opencl3::memory::{Buffer, CL_MEM_READ_ONLY, ClMem, cl_mem, retain_mem_object};

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
    /// [`Error::TooSmall`] for a buffer of fewer elements; what OpenCL says of a buffer that is none.
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
        self.into_tensor_of(Self::Element::DTYPE, 0, shape)
    }

    /// As [`into_tensor`](Self::into_tensor), of any dtype, and with elements that begin `byte_offset` bytes in.
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
    /// [`Error::NotOpenCl`] for a tensor that is somewhere else; an error for one of another dtype, or without
    /// elements, which has no memory.
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

    /// A copy of the elements on the host, in C order, when all commands before it in the queue are done.
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
        if self.dtype() != T::DTYPE {
            let (found, expected) = (self.dtype(), T::DTYPE);
            return Err(dlbridge::Error::DataType { found, expected }.into());
        }
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
    if tensor.data().is_null() {
        return Err(
            dlbridge::Error::NullPointer { field: "the data of a tensor with elements" }.into()
        );
    }
    // SAFETY: Handle.
    unsafe { retain(tensor.data()) }
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
    let bounds = TensorRef::from(&tensor).byte_bounds();
    let offset = i64::try_from(byte_offset).unwrap_or(i64::MAX);
    let (first, end) = (offset + bounds.start as i64, offset.saturating_add(bounds.end as i64));
    match tensor.is_empty() || u64::try_from(end).is_ok_and(|end| end <= size as u64) {
        true => Ok(tensor),
        false => Err(Error::TooSmall { first, end, size }),
    }
}
