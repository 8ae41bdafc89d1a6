//! The export through the buffer protocol.

use std::ffi::{CStr, c_int};
use std::ptr;

use dlbridge::{DataType, DataTypeCode};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use dlbridge_pyo3::PyTensor;
use dlbridge_pyo3::layout::byte_strides;

/// The format of a dtype, if it has one that every consumer supports.
pub(crate) fn format_of(dtype: DataType) -> Option<&'static CStr> {
    use DataTypeCode as Code;
    if dtype.lanes() != 1 {
        return None;
    }
    Some(match (dtype.code(), dtype.bits()) {
        (Code::BOOL, 8) => c"?",
        (Code::INT, 8) => c"b",
        (Code::UINT, 8) => c"B",
        (Code::INT, 16) => c"h",
        (Code::UINT, 16) => c"H",
        (Code::INT, 32) => c"i",
        (Code::UINT, 32) => c"I",
        (Code::INT, 64) => c"q",
        (Code::UINT, 64) => c"Q",
        (Code::FLOAT, 16) => c"e",
        (Code::FLOAT, 32) => c"f",
        (Code::FLOAT, 64) => c"d",
        (Code::COMPLEX, 64) => c"Zf",
        (Code::COMPLEX, 128) => c"Zd",
        _ => return None,
    })
}

/// The numbers that an exported buffer points at.
struct Exported {
    shape: Vec<ffi::Py_ssize_t>,
    byte_strides: Vec<ffi::Py_ssize_t>,
}

/// Exports a tensor as a buffer that keeps `object`, its owner.
///
/// # Safety
/// `view` is NULL, or a `Py_buffer` to write to.
pub(super) unsafe fn export(
    object: &Bound<'_, PyAny>,
    tensor: &PyTensor,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    // SAFETY: the caller promises NULL, or the `Py_buffer` that Python passes to the slot, which nothing else uses
    // during the call.
    let Some(view) = (unsafe { view.as_mut() }) else {
        return Err(PyBufferError::new_err("a buffer was requested without a Py_buffer to fill"));
    };
    view.obj = ptr::null_mut();
    tensor.keep_reading()?;
    let (tensor, read_only) = (tensor.tensor(), tensor.is_read_only());
    let asks = |flag: c_int| flags & flag == flag;
    let (device, dtype) = (tensor.device(), tensor.dtype());
    if !device.device_type().is_host_accessible() {
        return Err(PyBufferError::new_err(format!(
            "the data is on {device}, and a buffer is on the CPU; move it first"
        )));
    }
    let bytes = ffi::Py_ssize_t::try_from(tensor.nbytes())
        .map_err(|_| PyBufferError::new_err("the tensor has more bytes than a buffer can count"))?;
    let format = if asks(ffi::PyBUF_FORMAT) {
        let format = format_of(dtype).ok_or_else(|| {
            PyBufferError::new_err(format!(
                "a buffer cannot express the dtype {dtype}; use DLPack, a consumer's from_dlpack, or the bytes alone, bytes(t)"
            ))
        })?;
        format.as_ptr()
    } else {
        ptr::null()
    };
    let refuse = |reason: &str| Err(PyBufferError::new_err(reason.to_owned()));
    if asks(ffi::PyBUF_WRITABLE) && read_only {
        return refuse(
            "the tensor is read-only and a writable buffer was requested; copy it first, for \
             example with dlbridge.asdlpack(t, writable=True)",
        );
    }
    // Without a request for the format, the consumer treats the elements as bytes. Packed elements have no shape in bytes.
    let is_packed = tensor.len().checked_mul(dtype.itemsize()) != Some(bytes as usize);
    let (c_order, f_order) = (tensor.is_c_contiguous(), tensor.is_f_contiguous());
    let fits = if asks(ffi::PyBUF_ANY_CONTIGUOUS) {
        c_order || f_order
    } else if asks(ffi::PyBUF_F_CONTIGUOUS) {
        f_order
    } else {
        c_order || (asks(ffi::PyBUF_STRIDES) && !asks(ffi::PyBUF_C_CONTIGUOUS) && !is_packed)
    };
    if !fits {
        return refuse(
            "the elements are not contiguous in the order that the consumer needs; copy them first, \
             for example with dlbridge.asdlpack(t, contiguous='C')",
        );
    }
    let exported = Box::leak(Box::new(match is_packed {
        true => Exported { shape: vec![bytes], byte_strides: vec![1] },
        false => Exported {
            shape: tensor.shape().iter().map(|&extent| extent as ffi::Py_ssize_t).collect(),
            byte_strides: byte_strides(tensor),
        },
    }));
    let numbers = |wanted: bool, numbers: &mut Vec<ffi::Py_ssize_t>| match wanted {
        true => numbers.as_mut_ptr(),
        false => ptr::null_mut(),
    };
    // Without elements the address is NULL, but some consumers treat NULL as an error.
    view.buf = if tensor.is_empty() { ptr::dangling_mut::<u64>().cast() } else { tensor.data() };
    view.len = bytes;
    view.itemsize = if is_packed { 1 } else { dtype.itemsize() as ffi::Py_ssize_t };
    view.readonly = c_int::from(read_only);
    // Without a shape, the bytes are one dimension.
    view.ndim = if asks(ffi::PyBUF_ND) { exported.shape.len() as c_int } else { 1 };
    view.format = format.cast_mut();
    view.shape = numbers(asks(ffi::PyBUF_ND), &mut exported.shape);
    view.strides = numbers(asks(ffi::PyBUF_STRIDES), &mut exported.byte_strides);
    view.suboffsets = ptr::null_mut();
    view.internal = ptr::from_mut(exported).cast();
    view.obj = object.clone().into_ptr();
    Ok(())
}

/// Releases a buffer that `export` filled.
///
/// # Safety
/// `view` was filled by `export`, and is not used after this.
pub(super) unsafe fn take_back(view: *mut ffi::Py_buffer) {
    // SAFETY: `export` stored the box there, and the caller promises that this is the only release.
    drop(unsafe { Box::from_raw((*view).internal.cast::<Exported>()) });
}
