//! Buffers as tensors.

use cl3::context::{CL_CONTEXT_DEVICES, get_context_info};
use cl3::device::{CL_DEVICE_PARENT_DEVICE, get_device_info};
use cl3::types::cl_device_id;
use dlbridge::{Access, DataType, Device, DeviceType, Element, RawParts, Tensor, TensorRef};
use opencl3::device::{CL_DEVICE_TYPE_ALL, get_all_devices};
use opencl3::error_codes::ClError;
use opencl3::memory::{
    Buffer, CL_MEM_OBJECT_BUFFER, CL_MEM_READ_ONLY, ClMem, cl_mem, retain_mem_object,
};

use crate::sealed::Sealed;
use crate::{Error, Result};

/// Buffers of [opencl3](opencl3::memory::Buffer) as tensors.
pub trait BufferExt: Sealed + Sized {
    /// The type of the elements.
    type Element: Element;

    /// Returns the buffer as a tensor in C order, without a copy. The buffer is released with the tensor and everything
    /// that shares its memory.
    ///
    /// # Errors
    /// [`Error::TooSmall`] if the buffer has too few elements; [`Error::NotABuffer`] for an image.
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

    /// Like [`into_tensor`](Self::into_tensor), for any dtype, with elements that begin `byte_offset` bytes into the
    /// buffer. Elements narrower than a byte are packed.
    ///
    /// # Errors
    /// The errors of [`into_tensor`](Self::into_tensor).
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

    /// Returns a tensor over the memory of a borrowed buffer, which is retained.
    ///
    /// # Errors
    /// The errors of [`into_tensor`](Self::into_tensor).
    ///
    /// ```no_run
    /// use dlbridge_opencl::{BufferExt, Result};
    /// use opencl3::memory::Buffer;
    ///
    /// fn export(buffer: &Buffer<f32>) -> Result<dlbridge::Tensor> {
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
        over(retained(self)?, T::DATA_TYPE, T::DATA_TYPE.is_subbyte(), 0, shape)
    }
}

/// Returns the buffer of an OpenCL tensor, retained.
pub(crate) fn handle<T>(tensor: &Tensor) -> Result<Buffer<T>> {
    if tensor.is_empty() {
        return Err(Error::Empty);
    }
    // SAFETY: Handle: the tensor is on OpenCL and has elements, so its data is a live `cl_mem`.
    let buffer = unsafe { retain(tensor.data()) }?;
    check_buffer(&buffer)?;
    Ok(buffer)
}

/// Refuses a `cl_mem` that is not a buffer, although its Rust type is `Buffer`.
fn check_buffer<T>(memory: &Buffer<T>) -> Result<()> {
    match memory.mem_type()? == CL_MEM_OBJECT_BUFFER {
        true => Ok(()),
        false => Err(Error::NotABuffer),
    }
}

/// Returns the lowest byte of the tensor's elements in its buffer, after checking that the buffer has all of them.
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

/// Adds a reference to a buffer.
fn retained<T>(buffer: &Buffer<T>) -> Result<Buffer<u8>> {
    // SAFETY: the buffer holds a reference, so its `cl_mem` is live.
    unsafe { retain(buffer.get()) }
}

/// # Safety
/// `memory` must be a live `cl_mem`.
unsafe fn retain<T>(memory: cl_mem) -> Result<Buffer<T>> {
    // SAFETY: the caller guarantees that the object lives; dropping the buffer releases this reference.
    unsafe { retain_mem_object(memory) }.map_err(ClError)?;
    Ok(Buffer::new(memory))
}

/// Makes a tensor in C order over a buffer.
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
    let device = device_of(&buffer)?;
    let parts = RawParts {
        device,
        byte_offset,
        access,
        subbyte_padded,
        ..RawParts::new(buffer.get(), dtype)
    };
    // SAFETY: the owner holds a reference to the `cl_mem`; the CPU makes no view of device data, and the check below
    // refuses elements past the end of the buffer before anything uses the tensor.
    let tensor = unsafe { Tensor::from_raw_parts(buffer, parts, shape.as_ref(), None::<&[i64]>) }?;
    if !tensor.is_empty() {
        first_byte(&tensor, size)?;
    }
    Ok(tensor)
}

/// Returns the device of a buffer: the first device of its context.
fn device_of(buffer: &impl ClMem) -> Result<Device> {
    let info = get_context_info(buffer.context()?, CL_CONTEXT_DEVICES).map_err(ClError)?;
    let devices: Vec<isize> = info.into();
    let mut device = *devices.first().ok_or(Error::UnlistedDevice)?;
    // Platforms do not list sub-devices.
    loop {
        let parent = get_device_info(device as cl_device_id, CL_DEVICE_PARENT_DEVICE);
        match parent.map_err(ClError)?.into() {
            0_isize => break,
            parent => device = parent,
        }
    }
    let place = get_all_devices(CL_DEVICE_TYPE_ALL)?
        .into_iter()
        .position(|listed| listed.addr() as isize == device);
    let place = place.and_then(|place| i32::try_from(place).ok()).ok_or(Error::UnlistedDevice)?;
    Ok(Device::new(DeviceType::OPENCL, place))
}
