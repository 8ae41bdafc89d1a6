//! Arguments and results of a call as tensors.

use std::ffi::{c_int, c_void};

use dlbridge::{DataType, Device, RawParts, TensorRef};

use super::frame::{Buffer, Buffers, Known};
use crate::contiguous::Contiguous;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::size;
use crate::value::Value;

/// More dimensions than any framework has.
const MAX_NDIM: usize = 64;

/// A buffer of a call: elements in C order.
#[derive(Clone, Copy)]
pub(super) struct Array<'a> {
    data: *mut c_void,
    device: Device,
    dtype: DataType,
    shape: &'a [i64],
}

impl<'a> Array<'a> {
    /// Reads the description of a buffer, whose memory is on `device`. `name` is its name in errors.
    ///
    /// # Safety
    /// The lists have `count` entries, which follow XLA's interface and stay as they are for `'a`; `index` is less than
    /// `count`.
    #[inline]
    pub(super) unsafe fn read(
        buffers: &Buffers,
        index: usize,
        name: &str,
        device: Device,
    ) -> Result<Self> {
        // SAFETY: both lists have more than `index` entries, by this function's contract.
        let (kind, buffer) = unsafe { (*buffers.types.add(index), *buffers.entries.add(index)) };
        if kind != Buffers::BUFFER {
            return Err(failed(format_args!("XLA passes {name} as type {kind}, not as an array")));
        }
        // SAFETY: an entry of the type `BUFFER` points at a `Buffer`, which begins with its size.
        if !unsafe { Buffer::knows(buffer, Buffer::NEEDED) } {
            return Err(failed(format_args!("XLA's description of {name} is too short")));
        }
        // SAFETY: `knows` found the pointer aligned and not NULL, and all fields present; XLA keeps the buffer for `'a`.
        let buffer: &'a Buffer = unsafe { &*buffer };
        let dtype = dtype(buffer.dtype).ok_or_else(|| {
            let code = buffer.dtype;
            Error::of(
                ErrorKind::Type,
                format_args!("{name} has a dtype without an equivalent here: XLA's number {code}"),
            )
        })?;
        let shape = match usize::try_from(buffer.ndim) {
            Ok(0) => &[][..],
            Ok(ndim @ ..=MAX_NDIM) if !buffer.shape.is_null() && buffer.shape.is_aligned() => {
                // SAFETY: the extents are `ndim` integers, which XLA keeps for `'a`; the pointer is aligned and not NULL.
                unsafe { std::slice::from_raw_parts(buffer.shape, ndim) }
            }
            _ => return Err(failed(format_args!("the shape of {name} is invalid"))),
        };
        Ok(Self { data: buffer.data, device, dtype, shape })
    }

    /// The elements, for reading. `name` is the buffer's name in errors.
    ///
    /// # Safety
    /// The memory has the elements, and no code writes them for `'a`.
    #[inline]
    pub(super) unsafe fn value(&self, name: &str) -> Result<Value<'a>> {
        if self.device == Device::CPU
            // SAFETY: the elements lie from `data` on, in C order, on the CPU, and the caller guarantees the rest.
            && let Some(tensor) = unsafe { Contiguous::new(self.data, self.dtype, self.shape) }
        {
            return Ok(Value::Contiguous(tensor));
        }
        match self.bytes() {
            Some(bytes) if bytes == 0 || !self.data.is_null() => {}
            _ => return Err(failed(format_args!("the memory of {name} is invalid"))),
        }
        let parts = RawParts { device: self.device, ..RawParts::new(self.data, self.dtype) };
        // SAFETY: the elements lie from `data` on, in C order, and the caller guarantees the rest.
        Ok(Value::of(unsafe { TensorRef::from_raw_parts(&parts, self.shape, None::<&[i64]>) }?))
    }

    /// The size of the elements, if it is in the address space.
    fn bytes(&self) -> Option<usize> {
        let bytes = size(self.dtype, self.shape).ok()?;
        self.data.addr().checked_add(bytes).map(|_| bytes)
    }

    /// Moves the elements of `argument` to this buffer, which is to be the result for an argument that changes in place.
    /// Does nothing if both are the same memory.
    ///
    /// # Errors
    /// Returns an error if the buffers are not of one dtype and shape, if one of `others` overlaps this one, or if the
    /// elements are not on the CPU.
    ///
    /// # Safety
    /// Both have their elements, this one is valid for writes, and no reference to its elements is alive.
    pub(super) unsafe fn replace(
        &self,
        argument: &Self,
        name: &str,
        others: &[Value<'_>],
    ) -> Result<()> {
        if (self.dtype, self.shape) != (argument.dtype, argument.shape) {
            return Err(Error::of(
                ErrorKind::Value,
                format_args!(
                    "{name} changes in place, so its result must be {} of shape {:?}, but is {} of shape {:?}",
                    argument.dtype, argument.shape, self.dtype, self.shape
                ),
            ));
        }
        let bytes = self.bytes().unwrap_or(0);
        // `value` refuses memory at NULL.
        if self.data == argument.data || bytes == 0 || self.data.is_null() {
            return Ok(());
        }
        if self.device != Device::CPU {
            return Err(failed(format_args!(
                "{name} changes in place, but XLA's result is other memory; pass `input_output_aliases` to `ffi_call`"
            )));
        }
        let (first, last) = (self.data.addr(), self.data.addr() + bytes);
        let overlaps = |other: &Value<'_>| {
            other.addresses().is_some_and(|other| first < other.end && other.start < last)
        };
        if others.iter().any(overlaps) {
            return Err(Error::of(
                ErrorKind::Buffer,
                format_args!("the memory of the result {name} overlaps that of an argument"),
            ));
        }
        // SAFETY: both are valid for `bytes` bytes by this function's contract; `others` has the argument, so they do not
        // overlap.
        unsafe { argument.data.cast::<u8>().copy_to_nonoverlapping(self.data.cast(), bytes) };
        Ok(())
    }
}

/// An error of the interface.
pub(super) fn failed(message: impl std::fmt::Display) -> Error {
    Error::of(ErrorKind::Failed, message)
}

/// The dtype with this number in XLA. Elements of less than a byte are left out: XLA's layout of them depends on the
/// device.
fn dtype(code: c_int) -> Option<DataType> {
    Some(match code {
        1 => DataType::BOOL,
        2 => DataType::INT8,
        3 => DataType::INT16,
        4 => DataType::INT32,
        5 => DataType::INT64,
        6 => DataType::UINT8,
        7 => DataType::UINT16,
        8 => DataType::UINT32,
        9 => DataType::UINT64,
        10 => DataType::FLOAT16,
        11 => DataType::FLOAT32,
        12 => DataType::FLOAT64,
        15 => DataType::COMPLEX64,
        16 => DataType::BFLOAT16,
        18 => DataType::COMPLEX128,
        19 => DataType::FLOAT8_E5M2,
        20 => DataType::FLOAT8_E4M3FN,
        23 => DataType::FLOAT8_E4M3B11FNUZ,
        24 => DataType::FLOAT8_E5M2FNUZ,
        25 => DataType::FLOAT8_E4M3FNUZ,
        28 => DataType::FLOAT8_E4M3,
        29 => DataType::FLOAT8_E3M4,
        33 => DataType::FLOAT8_E8M0FNU,
        _ => return None,
    })
}
