//! The memory of an output, from a framework's allocator to the value for the function.
//!
//! - **Memory.** For `'m` there are `bytes` bytes from `data` on, in one allocation on the device. They are valid for
//!   writes, and only the holder uses them. On the CPU they have some value; zeros, unless `stale` is true.

use std::ffi::c_void;
use std::marker::PhantomData;

use dlbridge::{Access, DataType, Device, RawParts, TensorRefMut};

use crate::contiguous::{Contiguous, ContiguousMut, is_aligned};
use crate::error::{Error, ErrorKind, Result};

/// The memory of an output, for the elements of a dtype and a shape in C order.
pub(crate) struct Memory<'m> {
    data: *mut c_void,
    bytes: usize,
    device: Device,
    stale: bool,
    memory: PhantomData<&'m mut [u8]>,
}

impl<'m> Memory<'m> {
    /// # Safety
    /// For `'m` there are that many bytes from `data` on, in one allocation on the device. They are valid for writes, and
    /// no other code uses them. On the CPU they have some value; zeros, unless `stale` is true.
    #[inline]
    pub(crate) unsafe fn new(data: *mut c_void, bytes: usize, device: Device, stale: bool) -> Self {
        // Memory: the caller guarantees it.
        Self { data, bytes, device, stale, memory: PhantomData }
    }

    /// The memory of a tensor, or the tensor if its elements are not aligned or not in C order without gaps.
    pub(crate) fn of(tensor: TensorRefMut<'m>, align: usize) -> Result<Self, TensorRefMut<'m>> {
        let view = tensor.as_tensor_ref();
        if !view.is_c_contiguous() || !is_aligned(&view, align) {
            return Err(tensor);
        }
        let data = view.data().wrapping_byte_add(view.byte_offset() as usize);
        let bytes = size(view.dtype(), view.shape()).unwrap_or(0);
        // Memory: the tensor has its elements there, alone and for writing, and is consumed.
        Ok(Self { data, bytes, device: view.device(), stale: true, memory: PhantomData })
    }

    /// The output as contiguous memory on the CPU, unless it is on a device or empty.
    #[inline]
    pub(crate) fn into_contiguous<'s>(
        self,
        dtype: DataType,
        shape: &'s [i64],
    ) -> Result<ContiguousMut<'s>, Self>
    where
        'm: 's,
    {
        if self.device != Device::CPU {
            return Err(self);
        }
        // SAFETY: Memory: the elements are there, as the comparison finds, on the CPU; only the holder uses them, who gives
        // them away here.
        let tensor = unsafe {
            Contiguous::new(self.data, dtype, shape)
                .filter(|tensor| tensor.bytes() <= self.bytes)
                .map(|tensor| tensor.assume_exclusive(self.stale))
        };
        tensor.ok_or(self)
    }

    /// The output in the form for every tensor, with zeros unless it is on a device.
    pub(crate) fn into_tensor(self, dtype: DataType, shape: &[i64]) -> Result<TensorRefMut<'m>> {
        let bytes = size(dtype, shape)?;
        if bytes > self.bytes {
            return Err(Error::of(ErrorKind::Failed, "the memory of an output is too small"));
        }
        let parts = RawParts {
            access: Access::Exclusive,
            device: self.device,
            ..RawParts::new(self.data, dtype)
        };
        if self.stale && bytes > 0 && self.device.device_type().is_host_accessible() {
            // SAFETY: Memory: that many bytes, as the comparison found, which only the holder uses.
            unsafe { self.data.cast::<u8>().write_bytes(0, bytes) };
        }
        // SAFETY: Memory: the elements are there, as the comparison found, and only the holder uses them, who gives them
        // away here. On the host they are zeros.
        Ok(unsafe { TensorRefMut::from_raw_parts(&parts, shape, None::<&[i64]>) }?)
    }
}

/// The memory of a tensor whose elements are in C order without gaps.
impl<'m> From<ContiguousMut<'m>> for Memory<'m> {
    #[inline]
    fn from(tensor: ContiguousMut<'m>) -> Self {
        let ((data, stale), bytes) = (tensor.data(), tensor.tensor().bytes());
        // Memory: Elements of the tensor, which is consumed.
        Self { data, bytes, device: Device::CPU, stale, memory: PhantomData }
    }
}

/// The size of elements in C order, in bytes.
#[inline]
pub(crate) fn size(dtype: DataType, shape: &[i64]) -> Result<usize> {
    if shape.contains(&0) {
        return Ok(0);
    }
    let count = shape
        .iter()
        .try_fold(1_usize, |count, extent| count.checked_mul(usize::try_from(*extent).ok()?));
    let bytes = count.and_then(|count| count.checked_mul(dtype.itemsize()));
    bytes.filter(|bytes| isize::try_from(*bytes).is_ok()).ok_or_else(|| {
        Error::of(
            ErrorKind::Value,
            format_args!(
                "an output of {dtype} and shape {shape:?} is larger than the address space"
            ),
        )
    })
}
