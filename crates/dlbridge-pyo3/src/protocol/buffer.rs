//! The buffer protocol, as a consumer of `bytes`, `bytearray`, `memoryview`, `array.array`, `mmap`
//! and whatever else lends its memory that way, and as a producer.
//!
//! Source: PEP 3118 and the C API documentation of `Py_buffer`.

use std::ffi::{CStr, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use dlbridge::{DataType, Device, RawParts, Tensor, TensorRef};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::array_interface::byte_strides;
use super::buffer_format::{self, Unfit};
use super::memory::{MAX_NDIM, Memory, in_elements};
use super::{Imported, Protocol};
use crate::interpreter::{check_main_interpreter, while_it_lives};
use crate::live::Export;
use crate::receipt::CopyReason;
use crate::wanted::Wanted;

/// A buffer that is locked by us: a struct out of a `Box`, which stays where it is because its
/// fields may point into it.
pub(crate) struct Buffer(NonNull<ffi::Py_buffer>);

// SAFETY: released attached only (`drop`), and read before it becomes an owner.
unsafe impl Send for Buffer {}

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
        let empty = ffi::Py_buffer { readonly: 1, ..ffi::Py_buffer::new() };
        let buffer = NonNull::from(Box::leak(Box::new(empty)));
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

    /// Gives the buffer back.
    ///
    /// # Safety
    /// It is not used afterwards.
    unsafe fn release(&mut self, _py: Python<'_>) {
        // SAFETY: attached; filled by `PyObject_GetBuffer`, and released once, by contract. The box is the
        // one from `get`.
        unsafe {
            ffi::PyBuffer_Release(self.0.as_ptr());
            drop(Box::from_raw(self.0.as_ptr()));
        }
    }

    #[inline]
    fn fields(&self) -> &ffi::Py_buffer {
        // SAFETY: filled in `get`, and nobody writes it while it is locked.
        unsafe { self.0.as_ref() }
    }

    /// An array of `ndim` numbers that the buffer points at.
    fn numbers(&self, pointer: *const ffi::Py_ssize_t, ndim: usize) -> Option<&[isize]> {
        // SAFETY: the protocol: not NULL means `ndim` numbers that live as long as the buffer.
        (!pointer.is_null()).then(|| unsafe { slice::from_raw_parts(pointer, ndim) })
    }

    fn format(&self) -> &[u8] {
        if self.fields().format.is_null() {
            // What the protocol says NULL means.
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

    pub(crate) fn is_read_only(&self) -> bool {
        self.fields().readonly != 0
    }

    fn dtype(&self) -> PyResult<(DataType, bool)> {
        let (format, itemsize) = (self.format(), self.fields().itemsize);
        buffer_format::parse(format, itemsize.max(0) as usize).map_err(|unfit| {
            let format = String::from_utf8_lossy(format);
            PyBufferError::new_err(match unfit {
                Unfit::NoNumber => format!(
                    "the buffer's format '{format}' has no dtype here, which boolean, integer, half, \
                     single or double float and complex formats have; convert the elements first"
                ),
                Unfit::Size(size) => format!(
                    "the buffer's format '{format}' says {size} bytes, but its itemsize is \
                     {itemsize}; the exporter must make them agree"
                ),
            })
        })
    }

    fn into_tensor(self, copy: Option<bool>) -> PyResult<(Tensor, Option<CopyReason>)> {
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
            door: "buffer",
            data: fields.buf,
            dtype,
            byte_swapped,
            shape: &shape[..ndim],
            byte_strides: has_strides.then_some(&byte_strides[..ndim]),
            device: Device::CPU,
            read_only: self.is_read_only(),
            subbyte_padded: false,
        };
        // SAFETY: the protocol: the memory of the described elements stays valid, and in place,
        // until the buffer is released, which the owner does when dropped. That nobody writes while
        // a view is alive is promised by the program (see the crate documentation).
        unsafe { memory.into_tensor(self, copy) }
    }
}

/// Imports an object that lends a buffer; `None` for one that does not.
pub(super) fn import(object: &Bound<'_, PyAny>, wanted: &Wanted) -> PyResult<Option<Imported>> {
    // SAFETY: attached; an object.
    if unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) } == 0 {
        return Ok(None);
    }
    wanted.check_on_cpu("a buffer")?;
    let (tensor, reason) = Buffer::get(object)?.into_tensor(wanted.copy)?;
    Ok(Some(Imported { reason, ..Imported::new(tensor, Protocol::Buffer) }))
}

/// What a buffer that is lent points at.
struct Lent {
    shape: Vec<ffi::Py_ssize_t>,
    byte_strides: Vec<ffi::Py_ssize_t>,
    _export: Export,
}

/// Answers a request for a buffer over the tensor of `object`.
///
/// # Safety
/// `view` is NULL or a place to write to.
pub(crate) unsafe fn export(
    object: &Bound<'_, PyAny>,
    tensor: &Arc<Tensor>,
    read_only: bool,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    // SAFETY: by contract.
    let Some(view) = (unsafe { view.as_mut() }) else {
        return Err(PyBufferError::new_err("a buffer was asked for without a place for it"));
    };
    view.obj = ptr::null_mut();
    let (format, bytes) = lendable(tensor)?;
    let asks = |flag: c_int| flags & flag == flag;
    let refuse = |reason: &str| Err(PyBufferError::new_err(reason.to_owned()));
    if asks(ffi::PyBUF_WRITABLE) && read_only {
        return refuse(
            "the tensor is read-only and a writable buffer was asked for; copy it first, for \
             example with dlbridge.asdlpack(t, writable=True)",
        );
    }
    let (c_order, f_order) = (tensor.is_c_contiguous(), tensor.is_f_contiguous());
    let fits = if asks(ffi::PyBUF_ANY_CONTIGUOUS) {
        c_order || f_order
    } else if asks(ffi::PyBUF_F_CONTIGUOUS) {
        f_order
    } else {
        c_order || (asks(ffi::PyBUF_STRIDES) && !asks(ffi::PyBUF_C_CONTIGUOUS))
    };
    if !fits {
        return refuse(
            "the elements are not adjacent in the order that the consumer needs; copy them first, \
             for example with dlbridge.asdlpack(t, contiguous='C')",
        );
    }
    let lent = Box::new(Lent {
        shape: tensor.shape().iter().map(|&extent| extent as ffi::Py_ssize_t).collect(),
        byte_strides: byte_strides(tensor),
        _export: Export::new(tensor, Protocol::Buffer.name()),
    });
    let lent = Box::leak(lent);
    let numbers = |wanted: bool, numbers: &mut Vec<ffi::Py_ssize_t>| match wanted {
        true => numbers.as_mut_ptr(),
        false => ptr::null_mut(),
    };
    // Without elements there is no address, but some consumers take NULL for an error.
    view.buf = if tensor.is_empty() { ptr::dangling_mut::<u64>().cast() } else { tensor.data() };
    view.len = bytes;
    view.itemsize = tensor.dtype().itemsize() as ffi::Py_ssize_t;
    view.readonly = c_int::from(read_only);
    view.ndim = tensor.ndim() as c_int;
    view.format =
        if asks(ffi::PyBUF_FORMAT) { format.as_ptr().cast_mut() } else { ptr::null_mut() };
    view.shape = numbers(asks(ffi::PyBUF_ND), &mut lent.shape);
    view.strides = numbers(asks(ffi::PyBUF_STRIDES), &mut lent.byte_strides);
    view.suboffsets = ptr::null_mut();
    view.internal = ptr::from_mut(lent).cast();
    view.obj = object.clone().into_ptr();
    Ok(())
}

/// Takes back a buffer that `export` lent.
///
/// # Safety
/// `view` was filled by `export`, and is not used after this.
pub(crate) unsafe fn take_back(view: *mut ffi::Py_buffer) {
    // SAFETY: the box that `export` left there.
    drop(unsafe { Box::from_raw((*view).internal.cast::<Lent>()) });
}

/// The format and the number of bytes of a tensor that a buffer can express.
fn lendable(tensor: &Tensor) -> PyResult<(&'static CStr, ffi::Py_ssize_t)> {
    let (dtype, device) = (tensor.dtype(), tensor.device());
    if !device.device_type().is_host_accessible() {
        return Err(PyBufferError::new_err(format!(
            "the data is on {device}, and a buffer is on the CPU; move it first"
        )));
    }
    let format = buffer_format::of_dtype(dtype).ok_or_else(|| {
        PyBufferError::new_err(format!(
            "a buffer cannot express the dtype {dtype}; use DLPack, or a consumer's from_dlpack"
        ))
    })?;
    let bytes = ffi::Py_ssize_t::try_from(tensor.nbytes())
        .map_err(|_| PyBufferError::new_err("the tensor has more bytes than a buffer can count"))?;
    Ok((format, bytes))
}
