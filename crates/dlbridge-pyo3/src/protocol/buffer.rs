//! Import through the buffer protocol.
//!
//! `bytes`, `bytearray`, `memoryview`, `array.array`, `mmap` and other objects support it.
//!
//! Source: PEP 3118, the C API documentation of `Py_buffer`, and the documentation of the `struct` module.

use std::ffi::{CStr, c_void};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;
use std::sync::OnceLock;

use dlbridge::sys::DLPackVersion;
use dlbridge::{Access, DataType, DataTypeCode as Code, MAX_NDIM, RawParts, Tensor, TensorRef};
use pyo3::exceptions::{PyBufferError, PyException};
use pyo3::ffi::{self, Py_buffer};
use pyo3::prelude::*;

use crate::imported::{Imported, Protocol};
use crate::layout::in_elements;
use crate::python::interpreter::{check_main_interpreter, while_it_lives};
use crate::python::objects::has_one_reference;

/// A buffer that this handle locks: a struct in a `Box`, which does not move, because its fields may point into it.
pub struct Buffer(NonNull<Py_buffer>);

// SAFETY: `drop` attaches to Python before it releases the buffer, which any attached thread may do. Until then the
// struct is only read.
unsafe impl Send for Buffer {}

// SAFETY: `&Buffer` only allows reads of the struct, and nothing writes it until it is dropped.
unsafe impl Sync for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: this is `drop`, so the buffer is not used again.
        while_it_lives(|py| unsafe { self.release(py) });
    }
}

/// A buffer that the locking thread releases while it is still attached, so the release need not check that.
pub(crate) struct HeldBuffer<'py> {
    buffer: ManuallyDrop<Buffer>,
    py: Python<'py>,
}

impl<'py> HeldBuffer<'py> {
    /// Locks the buffer of an object; `None` if the object refuses.
    pub(crate) fn get(object: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let held = |buffer| Self { buffer: ManuallyDrop::new(buffer), py: object.py() };
        Ok(Buffer::if_exported(object)?.map(held))
    }
}

impl Deref for HeldBuffer<'_> {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

impl Drop for HeldBuffer<'_> {
    fn drop(&mut self) {
        // SAFETY: the buffer is not used again: its own `drop` does not run.
        unsafe { self.buffer.release(self.py) }
    }
}

impl Buffer {
    /// Locks the buffer of an object, with every property that it may have: format, shape, strides, suboffsets;
    /// read-only if necessary.
    pub fn get(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        check_main_interpreter(object.py())?;
        // Not all zeros: zeroed memory comes from the system, which is slower than reused memory.
        let empty = Py_buffer { readonly: 1, ..Py_buffer::new() };
        let buffer = NonNull::from(Box::leak(Box::new(empty)));
        // SAFETY: attached; `object` is alive, and the struct is writable. The function fills it or leaves it without an
        // object.
        let result = unsafe {
            ffi::PyObject_GetBuffer(object.as_ptr(), buffer.as_ptr(), ffi::PyBUF_FULL_RO)
        };
        if result == 0 {
            return Ok(Self(buffer));
        }
        // SAFETY: the box from above, which the call did not fill.
        drop(unsafe { Box::from_raw(buffer.as_ptr()) });
        Err(PyErr::fetch(object.py()))
    }

    /// Locks the buffer of an object; `None` if the object refuses.
    pub(crate) fn if_exported(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        match Self::get(object) {
            Ok(buffer) => Ok(Some(buffer)),
            Err(error) if error.is_instance_of::<PyException>(object.py()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Releases the buffer.
    ///
    /// # Safety
    /// The buffer is not used afterwards.
    unsafe fn release(&mut self, _py: Python<'_>) {
        // SAFETY: attached. A `Buffer` exists only if `get` filled its view, and this is the only release: the caller
        // promises not to use the buffer again. The pointer is the box that `get` leaked.
        unsafe {
            ffi::PyBuffer_Release(self.0.as_ptr());
            drop(Box::from_raw(self.0.as_ptr()));
        }
    }

    /// The fields, which Python filled.
    #[inline]
    pub fn fields(&self) -> &Py_buffer {
        // SAFETY: `get` filled the struct, and nothing writes it while the buffer is locked.
        unsafe { self.0.as_ref() }
    }

    /// The object that owns the memory. It may differ from `asked`: a `PickleBuffer` passes the request on.
    pub fn exporter<'py>(&self, asked: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
        // SAFETY: attached; an object that the buffer has a reference to, or NULL.
        let exporter = unsafe { Bound::from_borrowed_ptr_or_opt(asked.py(), self.fields().obj) };
        exporter.unwrap_or_else(|| asked.clone())
    }

    /// The extents; `None` for a buffer without them.
    pub fn shape(&self) -> Option<&[isize]> {
        self.numbers(self.fields().shape)
    }

    /// The strides in bytes; `None` for C order.
    pub fn strides(&self) -> Option<&[isize]> {
        self.numbers(self.fields().strides)
    }

    /// The suboffsets; `None` for a buffer without them.
    pub fn suboffsets(&self) -> Option<&[isize]> {
        self.numbers(self.fields().suboffsets)
    }

    /// A number for each dimension, which the buffer points at.
    fn numbers(&self, pointer: *const ffi::Py_ssize_t) -> Option<&[isize]> {
        let ndim = usize::try_from(self.fields().ndim).ok()?;
        // SAFETY: the protocol: a pointer that is not NULL leads to `ndim` numbers that live as long as the buffer.
        (!pointer.is_null()).then(|| unsafe { slice::from_raw_parts(pointer, ndim) })
    }

    /// The format of the elements.
    pub fn format(&self) -> &[u8] {
        if self.fields().format.is_null() {
            // The protocol defines NULL as unsigned bytes.
            return b"B";
        }
        // SAFETY: the protocol: a string that lives as long as the buffer.
        unsafe { CStr::from_ptr(self.fields().format) }.to_bytes()
    }

    /// Describes the elements in place; `None` if a tensor cannot express them in place, or for unusual buffers.
    pub fn describe(&self) -> Option<TensorRef<'_>> {
        let fields = self.fields();
        if usize::try_from(fields.ndim).is_ok_and(|ndim| ndim > MAX_NDIM) {
            return None;
        }
        let (dtype, byte_swapped) = self.parsed().ok()?;
        // The bytes of booleans may be neither 0 nor 1.
        let plain = !byte_swapped && dtype != DataType::BOOL && fields.suboffsets.is_null();
        let shape = self.shape().filter(|_| plain)?;
        let strides = self.strides()?;
        // The item sizes of all formats are powers of two.
        let shift = dtype.itemsize().trailing_zeros();
        let axes =
            shape.iter().zip(strides).map(|(&extent, &stride)| in_elements(extent, stride, shift));
        let parts = RawParts::new(fields.buf, dtype);
        // SAFETY: the protocol: the memory of the described elements stays valid and in place until the buffer is
        // released. The program promises that no code writes while a view is alive (see the crate documentation).
        let tensor = unsafe { TensorRef::from_raw_axes(&parts, axes) }.ok()?;
        (tensor.len() << shift == self.nbytes()).then_some(tensor)
    }

    /// The tensor over the buffer in place, with an access that `__dlpack__` gives; `None` if
    /// [`describe`](Self::describe) finds no description.
    pub(super) fn into_described(self, access: Access) -> Option<Tensor> {
        // A second handle describes the memory while the first moves; it does not release the buffer.
        let lent = ManuallyDrop::new(Self(self.0));
        let described = lent.describe()?;
        // SAFETY: the protocol: the memory of the described elements stays valid and in place until the buffer is
        // released, which the owner does on drop. The program promises that no code writes while a view is alive (see
        // the crate documentation).
        Some(unsafe { Tensor::from_described(self, &described, access) })
    }

    /// The number of bytes.
    pub fn nbytes(&self) -> usize {
        self.fields().len.max(0) as usize
    }

    /// The address of the element at index zero.
    pub fn data(&self) -> *mut c_void {
        self.fields().buf
    }

    /// Returns true for the buffer of a `bytes` object that only this buffer refers to: the producer made it for this
    /// export, as Pillow does.
    pub fn is_of_bytes_without_another_reference(&self, py: Python<'_>) -> bool {
        let object = self.fields().obj;
        // SAFETY: attached; NULL, or an object that the buffer keeps.
        !object.is_null()
            && unsafe { ffi::PyBytes_CheckExact(object) != 0 && has_one_reference(py, object) }
    }

    pub fn is_read_only(&self) -> bool {
        self.fields().readonly != 0
    }

    /// The dtype, and true for the other byte order.
    #[inline(always)]
    pub fn parsed(&self) -> Result<(DataType, bool), Unfit> {
        parse(self.format(), self.fields().itemsize.max(0) as usize)
    }
}

/// Returns true if an object supports the protocol.
#[inline]
pub fn is_supported(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the thread is attached, and `object` is alive.
    unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) != 0 }
}

/// Imports an object that exports a buffer whose elements a tensor can share; `None` for one that does not export any.
pub(crate) fn import(object: &Bound<'_, PyAny>) -> PyResult<Option<Imported>> {
    if !is_supported(object) {
        return Ok(None);
    }
    let buffer = Buffer::get(object)?;
    let access = if buffer.is_read_only() { Access::ReadOnly } else { Access::Shared };
    let tensor = buffer.into_described(access);
    let tensor =
        tensor.ok_or_else(|| PyBufferError::new_err("a tensor cannot share the buffer"))?;
    Ok(Some(Imported::new(tensor, Protocol::Buffer)))
}

/// Why a format lacks a dtype.
#[derive(Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Not a number: text, an object, a structure, a pointer, several numbers, or anything else.
    NoNumber,
    /// The format and the buffer disagree on the size; holds the format's size in bytes.
    Size(usize),
}

/// The dtype of a format, for elements of `itemsize` bytes; true if the bytes of each number are not in this
/// machine's order.
fn parse(format: &[u8], itemsize: usize) -> Result<(DataType, bool), Unfit> {
    let (order, letters) = match format {
        [order @ (b'@' | b'=' | b'<' | b'>' | b'!'), letters @ ..] => (*order, letters),
        letters => (b'@', letters),
    };
    let native = order == b'@';
    let long = if native { size_of::<std::ffi::c_long>() } else { 4 };
    let (code, size) = match letters {
        b"?" => (Code::BOOL, 1),
        b"b" => (Code::INT, 1),
        b"B" | b"c" => (Code::UINT, 1),
        b"h" => (Code::INT, 2),
        b"H" => (Code::UINT, 2),
        b"i" => (Code::INT, 4),
        b"I" => (Code::UINT, 4),
        b"l" => (Code::INT, long),
        b"L" => (Code::UINT, long),
        b"q" => (Code::INT, 8),
        b"Q" => (Code::UINT, 8),
        b"n" if native => (Code::INT, size_of::<isize>()),
        b"N" if native => (Code::UINT, size_of::<usize>()),
        b"e" => (Code::FLOAT, 2),
        b"f" => (Code::FLOAT, 4),
        b"d" => (Code::FLOAT, 8),
        // The first is NumPy's, the second that of `struct` from Python 3.14 on.
        b"Zf" | b"F" => (Code::COMPLEX, 8),
        b"Zd" | b"D" => (Code::COMPLEX, 16),
        // MLX writes the name of a type without a letter.
        b"bfloat16" => (Code::BFLOAT, 2),
        _ => return Err(Unfit::NoNumber),
    };
    let swapped = match order {
        b'>' | b'!' => cfg!(target_endian = "little"),
        b'<' => cfg!(target_endian = "big"),
        _ => false,
    };
    if size != itemsize {
        return Err(Unfit::Size(size));
    }
    // The largest size is 128 bits.
    Ok((DataType::new(code, (size * 8) as u8, 1), swapped && size > 1))
}

/// The known facts about a type whose objects export the same data by their buffer.
#[derive(Default)]
pub struct SameBuffer {
    /// Empty before the first object; `None` if its buffer had other data.
    exported: OnceLock<Option<Exported>>,
}

/// The facts about an export by `__dlpack__` that a buffer lacks, and that are the same for all objects of a type.
#[derive(Clone, Copy)]
struct Exported {
    protocol: Protocol,
    version: Option<DLPackVersion>,
    access: Access,
}

impl SameBuffer {
    /// Returns true if the buffer of an object of the type is known to have the same data.
    #[inline]
    pub(crate) fn is_known(&self) -> bool {
        matches!(self.exported.get(), Some(Some(_)))
    }

    /// Reads an object through its buffer, without the checks of an import; `None` if that is not possible.
    #[inline]
    pub(crate) fn import(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<Imported>> {
        let Some(&Some(exported)) = self.exported.get() else { return Ok(None) };
        let Exported { protocol, version, access } = exported;
        let buffer = Buffer::if_exported(object)?;
        let tensor = buffer.and_then(|buffer| buffer.into_described(access));
        Ok(tensor.map(|tensor| Imported { version, ..Imported::new(tensor, protocol) }))
    }

    /// Compares the buffer of the first object of a type with its import by `__dlpack__`, and keeps the facts.
    pub(crate) fn learn(&self, object: &Bound<'_, PyAny>, imported: &Imported) -> PyResult<()> {
        if self.exported.get().is_some() {
            return Ok(());
        }
        let Imported { tensor, protocol, version, reason } = imported;
        // A buffer lacks the address of an empty array, and a format for most other dtypes.
        let dtype = tensor.dtype();
        let has_format = dtype.itemsize() * 8 == usize::from(dtype.bits())
            && matches!(dtype.code(), Code::INT | Code::UINT | Code::FLOAT | Code::COMPLEX);
        let by_dlpack = matches!(protocol, Protocol::Dlpack | Protocol::LegacyDlpack);
        if !by_dlpack || !has_format || tensor.is_empty() || reason.is_some() {
            return Ok(());
        }
        let buffer = Buffer::if_exported(object)?;
        let is_same = buffer.as_ref().and_then(Buffer::describe).is_some_and(|buffer| {
            buffer.data() == tensor.data()
                && buffer.dtype() == dtype
                && buffer.device() == tensor.device()
                && buffer.shape() == tensor.shape()
                && buffer.strides() == tensor.strides()
        });
        let exported = Exported { protocol: *protocol, version: *version, access: tensor.access() };
        let _ = self.exported.set(is_same.then_some(exported));
        Ok(())
    }
}
