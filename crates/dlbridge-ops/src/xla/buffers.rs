//! Arguments and results of a call as tensors.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use dlbridge::{Access, DataType, Device, RawParts, TensorRef, TensorRefMut};

use super::frame::{Buffer, Buffers, Known};
use crate::contiguous::Contiguous;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Memory;
use crate::on_cuda::OnCuda;
use crate::operator::Operator;
use crate::outputs::{Outputs, unknown_device};
use crate::value::Value;

/// More dimensions than any framework has.
const MAX_NDIM: usize = 64;

/// A buffer of a call, checked.
#[derive(Clone, Copy)]
pub(super) struct Checked<'a> {
    data: *mut c_void,
    device: Device,
    pub(super) dtype: DataType,
    pub(super) shape: &'a [i64],
    bytes: usize,
}

// SAFETY: the address is only used by functions whose contract names the code that may access the memory; `shape` is
// read only.
unsafe impl Send for Checked<'_> {}
// SAFETY: no method that takes `&self` and is safe accesses the memory.
unsafe impl Sync for Checked<'_> {}

impl<'a> Checked<'a> {
    /// Reads the buffer with this index, whose memory is on `device`. `name` is its name in errors.
    ///
    /// # Safety
    /// The lists have `count` entries, which follow XLA's interface and stay as they are for `'a`; `index` is less than
    /// `count`.
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
        let count = shape
            .iter()
            .try_fold(1_usize, |count, extent| count.checked_mul(usize::try_from(*extent).ok()?));
        let bytes = count
            .and_then(|count| count.checked_mul(dtype.itemsize()))
            .filter(|bytes| buffer.data.addr().checked_add(*bytes).is_some());
        match bytes {
            Some(bytes) if bytes == 0 || !buffer.data.is_null() => {
                Ok(Self { data: buffer.data, device, dtype, shape, bytes })
            }
            _ => Err(failed(format_args!("the memory of {name} is invalid"))),
        }
    }

    fn addresses(&self) -> Range<usize> {
        self.data.addr()..self.data.addr() + self.bytes
    }

    /// Returns true if both have an address in common.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let (this, other) = (self.addresses(), other.addresses());
        this.start.max(other.start) < this.end.min(other.end)
    }

    /// Returns true if both are the same memory.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.addresses() == other.addresses()
    }

    /// The elements, for reading.
    ///
    /// # Safety
    /// The memory has the elements, and no code writes them for `'a`.
    pub(super) unsafe fn value(&self) -> Result<Value<'a>> {
        // SAFETY: the caller guarantees this contract.
        if let Some(tensor) = unsafe { self.contiguous() } {
            return Ok(Value::Contiguous(tensor));
        }
        let parts = RawParts { access: Access::ReadOnly, ..self.parts() };
        // SAFETY: the elements lie from `data` on, in C order, and the caller guarantees the rest.
        Ok(Value::of(unsafe { TensorRef::from_raw_parts(&parts, self.shape, None::<&[i64]>) }?))
    }

    /// The elements, if they are on the CPU.
    ///
    /// # Safety
    /// The contract of [`value`](Self::value).
    unsafe fn contiguous(&self) -> Option<Contiguous<'a>> {
        if self.device != Device::CPU {
            return None;
        }
        // SAFETY: the elements lie from `data` on, in C order, on the CPU, and the caller guarantees the rest.
        unsafe { Contiguous::new(self.data, self.dtype, self.shape) }
    }

    /// The elements, for writing.
    ///
    /// # Safety
    /// The memory has the elements, is valid for writes, and no other code uses it for `'a`.
    pub(super) unsafe fn value_mut(&self) -> Result<Value<'a>> {
        // SAFETY: the caller guarantees this contract, and more.
        if let Some(tensor) = unsafe { self.contiguous() } {
            // SAFETY: the caller guarantees that no other code uses the elements for `'a`, and that they can be written.
            return Ok(Value::ContiguousMut(unsafe { tensor.assume_exclusive() }));
        }
        let parts = RawParts { access: Access::Exclusive, ..self.parts() };
        // SAFETY: the elements lie from `data` on, in C order, so no two indices lead to one of them; the caller
        // guarantees the rest.
        let tensor = unsafe { TensorRefMut::from_raw_parts(&parts, self.shape, None::<&[i64]>) }?;
        Ok(Value::of_mut(tensor))
    }

    fn parts(&self) -> RawParts {
        RawParts { device: self.device, ..RawParts::new(self.data, self.dtype) }
    }

    /// Returns true if the CPU can copy the elements.
    pub(super) fn is_on_cpu(&self) -> bool {
        self.device == Device::CPU
    }

    /// Copies the elements of another buffer of the same size, which does not overlap this one.
    ///
    /// # Safety
    /// Both have their elements on the CPU, this one is valid for writes, and no reference to its elements is alive.
    pub(super) unsafe fn copy_from(&self, other: &Self) {
        assert!(self.bytes == other.bytes && !self.overlaps(other), "the caller has checked both");
        if self.bytes != 0 {
            // SAFETY: both are valid for `bytes` bytes by this function's contract, and do not overlap.
            unsafe { other.data.cast::<u8>().copy_to_nonoverlapping(self.data.cast(), self.bytes) };
        }
    }
}

/// The memory of the outputs, which XLA has allocated.
pub(super) struct Results<'a> {
    buffers: &'a [Checked<'a>],
    operator: &'static Operator,
    cuda: Option<OnCuda<'a>>,
    /// A bit for each output that was provided.
    provided: AtomicU64,
}

impl<'a> Results<'a> {
    /// # Safety
    /// Each buffer has its elements, is valid for writes, and no other code uses it for `'a`.
    pub(super) unsafe fn new(
        operator: &'static Operator,
        buffers: &'a [Checked<'a>],
        cuda: Option<OnCuda<'a>>,
    ) -> Self {
        Self { operator, buffers, cuda, provided: AtomicU64::new(0) }
    }
}

impl Outputs for Results<'_> {
    fn output(&self, index: usize, dtype: DataType, shape: &[i64]) -> Result<Memory<'_>> {
        let Some(buffer) = self.buffers.get(index) else {
            return Err(failed(format_args!("XLA has no result {index}")));
        };
        let name = || self.operator.outputs().nth(index).map_or("a result", |output| output.name);
        if dtype != buffer.dtype {
            return Err(Error::of(
                ErrorKind::Type,
                format_args!(
                    "the output {} is {dtype}, but XLA's result is {}; pass this dtype to `ffi_call`",
                    name(),
                    buffer.dtype
                ),
            ));
        }
        if shape != buffer.shape {
            return Err(Error::of(
                ErrorKind::Value,
                format_args!(
                    "the output {} has the shape {shape:?}, but XLA's result has {:?}; pass this shape to `ffi_call`",
                    name(),
                    buffer.shape
                ),
            ));
        }
        let bit = u32::try_from(index).ok().and_then(|index| 1_u64.checked_shl(index)).unwrap_or(0);
        if bit == 0 || self.provided.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return Err(failed(format_args!("the output {} cannot be provided again", name())));
        }
        // SAFETY: by the contract of `new` only this call uses the buffer, and `provided` shows that no tensor of it
        // exists yet.
        Ok(unsafe { Memory::new(buffer.data, buffer.bytes, buffer.device) })
    }

    fn cuda(&self, _device: Option<i32>) -> Result<OnCuda<'_>> {
        self.cuda.ok_or_else(unknown_device)
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
