//! The buffer protocol, as a consumer: `bytes`, `bytearray`, `memoryview`, `array.array`, `mmap`,
//! and whatever else lends its memory that way.
//!
//! Source: PEP 3118 and the C API documentation of `Py_buffer`.

use std::borrow::Cow;
use std::ffi::CStr;
use std::ptr::NonNull;
use std::slice;

use dlbridge::{Access, DataType, Device, RawParts, Tensor};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::buffer_format::{self, Unfit};
use super::{Imported, Protocol, Wanted};
use crate::error::to_py_err;
use crate::interpreter::is_main_interpreter;
use crate::pending::keeping_pending;

/// A buffer that is locked by us: a struct out of a `Box`, which stays where it is because its
/// fields may point into it.
struct Buffer(NonNull<ffi::Py_buffer>);

// SAFETY: released attached only (`drop`), and read before it becomes an owner.
unsafe impl Send for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: may be asked at any time. When the interpreter is gone, or going, there is nothing
        // to give the buffer back to, and it is left alone.
        if unsafe { ffi::Py_IsInitialized() } == 0 {
            return;
        }
        // A deleter may be called by code that let the GIL go below a Rust function that has it, so
        // only Python itself can tell whether this thread has it now.
        // SAFETY: the interpreter is there.
        let state = unsafe { ffi::PyGILState_Ensure() };
        // SAFETY: just attached.
        let py = unsafe { Python::assume_attached() };
        // A producer may run Python code when its buffer is released.
        keeping_pending(py, || {
            // SAFETY: attached; filled by `PyObject_GetBuffer`, and released once.
            unsafe { ffi::PyBuffer_Release(self.0.as_ptr()) }
        });
        // SAFETY: out of a box (`get`), and not used after this.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        // SAFETY: what `PyGILState_Ensure` returned, in the same thread.
        unsafe { ffi::PyGILState_Release(state) };
    }
}

impl Buffer {
    /// Locks the buffer of an object, with everything that it may have: format, shape, strides,
    /// suboffsets; read-only if need be.
    fn get(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = NonNull::from(Box::leak(Box::new(ffi::Py_buffer::new())));
        // SAFETY: attached; an object, and a struct to fill.
        let result = unsafe {
            ffi::PyObject_GetBuffer(object.as_ptr(), buffer.as_ptr(), ffi::PyBUF_FULL_RO)
        };
        if result == 0 {
            return Ok(Self(buffer));
        }
        // SAFETY: the box from above, which was not filled.
        drop(unsafe { Box::from_raw(buffer.as_ptr()) });
        Err(PyErr::fetch(object.py()))
    }

    fn fields(&self) -> &ffi::Py_buffer {
        // SAFETY: filled in `get`, and nobody writes it while it is locked.
        unsafe { self.0.as_ref() }
    }

    /// An array of `ndim` numbers that the buffer points at.
    fn numbers(&self, pointer: *const ffi::Py_ssize_t, ndim: usize) -> Option<&[isize]> {
        // SAFETY: the protocol: not NULL means `ndim` numbers that live as long as the buffer.
        (!pointer.is_null()).then(|| unsafe { slice::from_raw_parts(pointer, ndim) })
    }

    fn format(&self) -> Cow<'_, str> {
        if self.fields().format.is_null() {
            // What the protocol says NULL means.
            return Cow::Borrowed("B");
        }
        // SAFETY: the protocol: a string that lives as long as the buffer.
        unsafe { CStr::from_ptr(self.fields().format) }.to_string_lossy()
    }

    fn dtype(&self) -> PyResult<DataType> {
        let (format, itemsize) = (self.format(), self.fields().itemsize);
        let unfit = match buffer_format::dtype(&format, itemsize.max(0) as usize) {
            Ok(dtype) => return Ok(dtype),
            Err(unfit) => unfit,
        };
        Err(PyBufferError::new_err(match unfit {
            Unfit::ByteOrder => format!(
                "the buffer's elements ('{format}') are not in this machine's byte order, which a \
                 tensor cannot express; swap them first, for example with \
                 a.astype(a.dtype.newbyteorder('='))"
            ),
            Unfit::NoNumber => format!(
                "the buffer's format '{format}' has no dtype here, which boolean, integer, half, \
                 single or double float and complex formats have; convert the elements first"
            ),
            Unfit::Size(size) => format!(
                "the buffer's format '{format}' says {size} bytes, but its itemsize is {itemsize}; \
                 the exporter must make them agree"
            ),
        }))
    }

    fn into_tensor(self) -> PyResult<Tensor> {
        const MAX_NDIM: usize = ffi::PyBUF_MAX_NDIM;
        let (fields, dtype) = (self.fields(), self.dtype()?);
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
        let (mut shape, mut strides) = ([0_isize; MAX_NDIM], [0_isize; MAX_NDIM]);
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
        let byte_strides = self.numbers(fields.strides, ndim);
        for (axis, &stride) in byte_strides.unwrap_or_default().iter().enumerate() {
            if stride % itemsize != 0 && shape[axis] > 1 {
                return Err(PyBufferError::new_err(format!(
                    "the buffer's stride of {stride} bytes on axis {axis} is no multiple of its \
                     {itemsize} byte elements, which a tensor cannot express; copy it first"
                )));
            }
            strides[axis] = stride / itemsize;
        }
        let parts = RawParts {
            access: if fields.readonly == 0 { Access::Shared } else { Access::ReadOnly },
            ..RawParts::new(fields.buf, dtype)
        };
        let strides = byte_strides.map(|_| &strides[..ndim]);
        // SAFETY: the protocol: the memory of the described elements stays valid, and in place,
        // until the buffer is released, which the owner does when dropped. That nobody writes while
        // a view is alive is promised by the program (see the crate documentation).
        unsafe { Tensor::from_raw_parts(self, parts, &shape[..ndim], strides) }.map_err(to_py_err)
    }
}

/// Imports an object that lends a buffer; `None` for one that does not.
pub(super) fn import(object: &Bound<'_, PyAny>, wanted: &Wanted) -> PyResult<Option<Imported>> {
    // SAFETY: attached; an object.
    if unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) } == 0 {
        return Ok(None);
    }
    if let Some(device) = wanted.device.filter(|&device| device != Device::CPU) {
        return Err(PyBufferError::new_err(format!(
            "a buffer is on the CPU and cannot be imported on {device}"
        )));
    }
    if !is_main_interpreter(object.py()) {
        return Err(PyBufferError::new_err(
            "a buffer cannot be imported in a subinterpreter, where it could not be released from \
             any thread; import it in the main interpreter",
        ));
    }
    let tensor = Buffer::get(object)?.into_tensor()?;
    Ok(Some(Imported { tensor, protocol: Protocol::Buffer, copied: false }))
}
