//! The import side of the buffer protocol: `bytes`, `bytearray`, `memoryview`, `array.array`, `mmap` and every other
//! object that supports it.
//!
//! Source: PEP 3118 and the C API documentation of `Py_buffer`.

use std::ffi::{CStr, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::slice;

use dlbridge::{CopyReason, DataType, Device, RawParts, Tensor, TensorRef};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use pyo3::{PyTraverseError, PyVisit, ffi};

use super::buffer_abi::{self, View};
use super::buffer_format::{self, Unfit};
use super::memory::{MAX_NDIM, Memory, access};
use super::typestr;
use crate::borrow::Guard;
use crate::copies;
use crate::error::to_py_err;
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::interpreter::{check_main_interpreter, while_it_lives};
use crate::strides::in_elements;

/// A buffer that is locked by us: a struct out of a `Box`, which stays where it is because its
/// fields may point into it.
pub(crate) struct Buffer(NonNull<View>);

// SAFETY: released attached only (`drop`), and read before it becomes an owner.
unsafe impl Send for Buffer {}

// SAFETY: through `&Buffer` the struct is only read, and nothing writes it until it is dropped.
unsafe impl Sync for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it is not used after this.
        while_it_lives(|py| unsafe { self.release(py) });
    }
}

/// A buffer that is released by the thread that locked it, which stays attached as long: that need not be found
/// out.
pub(crate) struct HeldBuffer<'py> {
    buffer: ManuallyDrop<Buffer>,
    py: Python<'py>,
}

impl<'py> HeldBuffer<'py> {
    pub(super) fn new(py: Python<'py>, buffer: Buffer) -> Self {
        Self { buffer: ManuallyDrop::new(buffer), py }
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
        // SAFETY: it is not used after this, not even to be dropped.
        unsafe { self.buffer.release(self.py) }
    }
}

impl Buffer {
    /// Locks the buffer of an object, with everything that it may have: format, shape, strides,
    /// suboffsets; read-only if need be.
    pub(super) fn get(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        check_main_interpreter(object.py())?;
        // Not all zeros: memory of zeros is taken from the system, which is slower than any that was free.
        let empty = View { readonly: 1, ..View::new() };
        let buffer = NonNull::from(Box::leak(Box::new(empty)));
        // SAFETY: attached; an object, and a struct to fill.
        let result = unsafe { buffer_abi::get(object, buffer.as_ptr()) };
        if result == 0 {
            return Ok(Self(buffer));
        }
        // SAFETY: the box from above, which was not filled.
        drop(unsafe { Box::from_raw(buffer.as_ptr()) });
        Err(PyErr::fetch(object.py()))
    }

    /// Gives the buffer back.
    ///
    /// # Safety
    /// It is not used afterwards.
    unsafe fn release(&mut self, py: Python<'_>) {
        // SAFETY: attached. A `Buffer` exists only if `get` filled its view, and this is the one release: the caller promises not to use
        // the buffer again. The pointer is that of the box that `get` leaked.
        unsafe {
            buffer_abi::release(py, self.0.as_ptr());
            drop(Box::from_raw(self.0.as_ptr()));
        }
    }

    /// Shows the buffer's exporter to Python's garbage collector.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // The collector would clear a `memoryview`, which prints an exception as long as its buffer is exported. Bytes are
        // in no cycle, and a program must not get at those that only this buffer refers to.
        // SAFETY: the collector runs attached; an object.
        let is_shown = |exporter: &NonNull<ffi::PyObject>| unsafe {
            let exporter = exporter.as_ptr();
            ffi::PyMemoryView_Check(exporter) == 0 && ffi::PyBytes_CheckExact(exporter) == 0
        };
        let exporter = NonNull::new(self.fields().obj).filter(is_shown);
        // SAFETY: the collector runs attached. The reference is the buffer's, and is neither counted nor given back here.
        let exporter = exporter.map(|exporter| unsafe {
            let py = Python::assume_attached();
            ManuallyDrop::new(Bound::from_owned_ptr(py, exporter.as_ptr()).unbind())
        });
        visit.call(exporter.as_deref())
    }

    #[inline]
    fn fields(&self) -> &View {
        // SAFETY: filled in `get`, and not written while it is locked.
        unsafe { self.0.as_ref() }
    }

    /// The object whose memory this is, which need not be the one that was asked: a `PickleBuffer` passes the request on.
    fn exporter<'py>(&self, asked: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
        // SAFETY: attached; an object that the buffer has a reference to, or NULL.
        let exporter = unsafe { Bound::from_borrowed_ptr_or_opt(asked.py(), self.fields().obj) };
        exporter.unwrap_or_else(|| asked.clone())
    }

    /// An array of `ndim` numbers that the buffer points at.
    fn numbers(&self, pointer: *const ffi::Py_ssize_t, ndim: usize) -> Option<&[isize]> {
        // SAFETY: the protocol: not NULL means `ndim` numbers that live as long as the buffer.
        (!pointer.is_null()).then(|| unsafe { slice::from_raw_parts(pointer, ndim) })
    }

    fn format(&self) -> &[u8] {
        if self.fields().format.is_null() {
            // The meaning of NULL in the protocol.
            return b"B";
        }
        // SAFETY: the protocol: a string that lives as long as the buffer.
        unsafe { CStr::from_ptr(self.fields().format) }.to_bytes()
    }

    /// The elements as they lie there; `None` where a tensor cannot express them so, or where that is
    /// unusual.
    pub(crate) fn describe(&self) -> Option<TensorRef<'_>> {
        let fields = self.fields();
        let ndim = usize::try_from(fields.ndim).ok().filter(|&ndim| ndim <= MAX_NDIM)?;
        let (dtype, byte_swapped) = self.dtype().ok()?;
        // Truth values may be neither 0 nor 1.
        let plain = !byte_swapped && dtype != DataType::BOOL && fields.suboffsets.is_null();
        let shape = self.numbers(fields.shape, ndim).filter(|_| plain)?;
        let strides = self.numbers(fields.strides, ndim)?;
        // A power of two, as all formats are.
        let shift = dtype.itemsize().trailing_zeros();
        let axes =
            shape.iter().zip(strides).map(|(&extent, &stride)| in_elements(extent, stride, shift));
        let parts = RawParts::new(fields.buf, dtype);
        // SAFETY: the protocol: the memory of the described elements stays valid, and in place, until the
        // buffer is released. That nobody writes while a view is alive is promised by the program (see the
        // crate documentation).
        let tensor = unsafe { TensorRef::from_raw_axes(&parts, axes) }.ok()?;
        (tensor.len() << shift == self.len()).then_some(tensor)
    }

    /// The number of bytes.
    pub(super) fn len(&self) -> usize {
        self.fields().len.max(0) as usize
    }

    /// The address of the element at index zero.
    pub(super) fn data(&self) -> *mut c_void {
        self.fields().buf
    }

    /// Returns true for the buffer of an object of bytes that is referred to by this buffer alone: bytes that a producer made as
    /// its answer, as Pillow does.
    pub(super) fn is_of_bytes_without_another_reference(&self, _py: Python<'_>) -> bool {
        let object = self.fields().obj;
        // SAFETY: attached; NULL, or the object that the buffer keeps.
        !object.is_null()
            && unsafe { ffi::PyBytes_CheckExact(object) != 0 && ffi::Py_REFCNT(object) == 1 }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.fields().readonly != 0
    }

    fn dtype(&self) -> PyResult<(DataType, bool)> {
        let (format, itemsize) = (self.format(), self.fields().itemsize);
        buffer_format::parse(format, itemsize.max(0) as usize).map_err(|unfit| {
            let format = String::from_utf8_lossy(format);
            match unfit {
                Unfit::NoNumber(kind) => {
                    typestr::no_dtype(&format!("the buffer's format '{format}'"), kind, None)
                }
                Unfit::Size(size) => PyBufferError::new_err(format!(
                    "the buffer's format '{format}' says {size} bytes, but its itemsize is \
                     {itemsize}; the exporter must make them agree"
                )),
            }
        })
    }

    /// The tensor of the buffer of an object.
    fn into_tensor(
        self,
        object: &Bound<'_, PyAny>,
        copy: Option<bool>,
    ) -> PyResult<(Tensor, Option<CopyReason>)> {
        let (fields, (dtype, byte_swapped)) = (self.fields(), self.dtype()?);
        let itemsize = dtype.itemsize() as isize;
        let ndim = usize::try_from(fields.ndim).ok().filter(|&ndim| ndim <= MAX_NDIM);
        let Some(ndim) = ndim else {
            return Err(PyBufferError::new_err(format!(
                "the buffer has {} dimensions; 0 to {MAX_NDIM} are allowed",
                fields.ndim
            )));
        };
        if let Some(suboffsets) = self.numbers(fields.suboffsets, ndim)
            && suboffsets.iter().any(|&suboffset| suboffset >= 0)
        {
            return Err(PyBufferError::new_err(
                "the buffer has suboffsets: its elements are behind pointers, which a tensor cannot \
                 express; copy it to one piece of memory first, for example with bytes()",
            ));
        }
        let (mut shape, mut byte_strides) = ([0_isize; MAX_NDIM], [0_isize; MAX_NDIM]);
        match self.numbers(fields.shape, ndim) {
            Some(extents) => shape[..ndim].copy_from_slice(extents),
            None if ndim == 1 => shape[0] = fields.len / itemsize,
            None if ndim == 0 => {}
            None => return Err(PyBufferError::new_err("the buffer has dimensions but no shape")),
        }
        let bytes = shape[..ndim].iter().try_fold(itemsize, |n, &extent| n.checked_mul(extent));
        if bytes != Some(fields.len) {
            return Err(PyBufferError::new_err(format!(
                "the buffer's shape {:?} of {itemsize} byte elements disagrees with its length of {} \
                 bytes; the exporter must make them agree",
                &shape[..ndim],
                fields.len
            )));
        }
        let has_strides = match self.numbers(fields.strides, ndim) {
            Some(numbers) => {
                byte_strides[..ndim].copy_from_slice(numbers);
                true
            }
            None => false,
        };
        let memory = Memory {
            protocol: "buffer",
            data: fields.buf,
            dtype,
            byte_swapped,
            shape: &shape[..ndim],
            byte_strides: has_strides.then_some(&byte_strides[..ndim]),
            device: Device::CPU,
            access: access(self.is_read_only()),
            subbyte_padded: false,
        };
        let exporter = self.exporter(object);
        // SAFETY: the protocol: the memory of the described elements stays valid, and in place,
        // until the buffer is released, which the owner does when dropped. That nobody writes while
        // a view is alive is promised by the program (see the crate documentation).
        unsafe { memory.into_tensor_of(&exporter, self, copy) }
    }
}

/// Imports an object that exports a buffer; `None` for one that does not.
pub(crate) fn import(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    if !buffer_abi::check(object) {
        return Ok(None);
    }
    options.check_on_cpu("a buffer")?;
    let (tensor, reason) = Buffer::get(object)?.into_tensor(object, options.copy)?;
    Ok(Some(Imported { reason, ..Imported::new(tensor, Protocol::Buffer) }))
}

/// The bytes of a contiguous tensor in a new bytearray.
pub(crate) fn to_bytearray<'py>(
    py: Python<'py>,
    tensor: &Tensor,
) -> PyResult<Bound<'py, PyByteArray>> {
    let _reading = Guard::reading(tensor, "tensor that is copied")?;
    let tensor = TensorRef::from(tensor);
    let from = tensor.as_bytes().map_err(to_py_err)?;
    // SAFETY: attached; a new object of that length, whose bytes are not initialised.
    let array = unsafe {
        let array = ffi::PyByteArray_FromStringAndSize(ptr::null(), from.len() as ffi::Py_ssize_t);
        Bound::from_owned_ptr_or_err(py, array)?
    };
    // SAFETY: `from.len()` bytes of an object that only this function has, and keeps until they are written.
    let to = unsafe {
        let first = ffi::PyByteArray_AsString(array.as_ptr()).cast::<MaybeUninit<u8>>();
        slice::from_raw_parts_mut(first, from.len())
    };
    copies::detached(from.len(), |go_on| {
        Ok(copies::each_block(to, go_on, |begin, block| {
            for (to, &from) in block.iter_mut().zip(&from[begin..]) {
                to.write(from);
            }
        }))
    })?;
    Ok(array.cast_into()?)
}
