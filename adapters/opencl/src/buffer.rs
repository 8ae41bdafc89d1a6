//! Buffers as tensors.
//!
//! - **Handle.** The data of a tensor on OpenCL is a `cl_mem`, which lives as long as the tensor.

use dlbridge::{Access, DataType, Element, RawParts, Tensor, TensorRef};
use opencl3::error_codes::ClError;
use opencl3::memory::{
    Buffer, CL_MEM_OBJECT_BUFFER, CL_MEM_READ_ONLY, ClMem, cl_mem, retain_mem_object,
};

use crate::sealed::Sealed;
use crate::{Error, Result, device};

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

impl<T: Element> Sealed for Buffer<T> {}

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
    // SAFETY: the caller guarantees that the object lives; a buffer that is dropped gives this reference back.
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
