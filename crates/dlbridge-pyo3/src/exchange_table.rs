//! The C exchange API of DLPack, the export: the table of a class that exports a tensor, through which C consumers reach its
//! objects without Python calls.
//!
//! Source: `DLPackExchangeAPI` in `dlpack.h` 1.3.

use std::any::Any;
use std::ffi::{CStr, CString, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

use dlbridge::sys::{
    DLDeviceType, DLManagedTensorVersioned, DLPackExchangeAPI, DLPackExchangeAPIHeader,
    DLPackSetError, DLPackVersion, DLTensor,
};
use dlbridge::{Device, Error, Tensor};
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::imported::{Imported, Protocol};
use crate::producer::Producer;
use crate::protocol::exchange_api::{self, CAPSULE_NAME};
use crate::python::error::{name_of, to_py_err, type_name};
use crate::tensor::PyTensor;

/// A table that threads may read.
struct Table(DLPackExchangeAPI);

// SAFETY: no code writes it.
unsafe impl Sync for Table {}

/// The table of a class.
trait TableOf: Producer {
    const TABLE: &'static Table = &Table(DLPackExchangeAPI {
        header: DLPackExchangeAPIHeader {
            version: DLPackVersion::CURRENT,
            prev_api: ptr::null_mut(),
        },
        managed_tensor_allocator: Some(allocate),
        managed_tensor_from_py_object_no_sync: Some(from_py_object::<Self>),
        managed_tensor_to_py_object_no_sync: Some(to_py_object::<Self>),
        // Nothing would keep the description of a tensor that a class makes for each export.
        dltensor_from_py_object_no_sync: if Self::KEEPS_TENSOR {
            Some(borrow::<Self>)
        } else {
            None
        },
        current_work_stream: Some(current_work_stream),
    });
}

impl<P: Producer> TableOf for P {}

/// The capsule over the table of a class.
pub fn capsule<P: Producer>(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: attached; the table and the name live as long as the process.
    unsafe {
        let table = (&raw const P::TABLE.0).cast_mut().cast();
        let capsule = ffi::PyCapsule_New(table, CAPSULE_NAME.as_ptr(), None);
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// Runs a function of the table that may raise: 0, or -1 with an exception set.
///
/// # Safety
/// The thread is attached.
unsafe fn raising(f: impl FnOnce(Python<'_>) -> PyResult<()>) -> c_int {
    // SAFETY: the caller promises that the thread is attached. The functions of the table that may raise require it
    // (`dlpack.h`).
    let py = unsafe { Python::assume_attached() };
    let result = catch_unwind(AssertUnwindSafe(|| f(py)));
    let error = match result {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => error,
        Err(panic) => PyRuntimeError::new_err(format!("dlbridge panicked: {}", text(&*panic))),
    };
    error.restore(py);
    -1
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let string = panic.downcast_ref::<String>().map(String::as_str);
    string.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// The object of a class at an address.
///
/// # Safety
/// The thread is attached, and the object is valid.
unsafe fn object_at<P: Producer>(py: Python<'_>, object: *mut c_void) -> PyResult<Bound<'_, P>> {
    // SAFETY: attached, as `py` shows. The caller promises a live object; NULL becomes an error.
    let object = unsafe { Bound::from_borrowed_ptr_or_err(py, object.cast()) }?;
    object.cast_into::<P>().map_err(|error| {
        let (found, class) = (type_name(&error.into_inner()), name_of(&py.get_type::<P>()));
        PyTypeError::new_err(format!("'{found}' object is not a {class}"))
    })
}

unsafe extern "C" fn from_py_object<P: Producer>(
    object: *mut c_void,
    out: *mut *mut DLManagedTensorVersioned,
) -> c_int {
    // SAFETY: the specification: attached, a valid object, a writable result.
    unsafe {
        raising(|py| {
            P::with_tensor(&object_at::<P>(py, object)?, |tensor| {
                P::put_in_order(py, tensor)?;
                *out = tensor.to_raw()?;
                Ok(())
            })
        })
    }
}

unsafe extern "C" fn borrow<P: Producer>(object: *mut c_void, out: *mut DLTensor) -> c_int {
    // SAFETY: the specification: attached, a valid object that lives as long as the caller uses the result. `TABLE` has this
    // function only for a class that keeps its tensor (`KEEPS_TENSOR`).
    unsafe {
        raising(|py| {
            P::with_tensor(&object_at::<P>(py, object)?, |tensor| {
                if tensor.is_read_only() {
                    return Err(PyBufferError::new_err(
                        "the tensor is read-only, which a borrowed DLTensor cannot express; pass a copy, \
                         for example dlbridge.asdlpack(t, writable=True)",
                    ));
                }
                if tensor.tensor().is_subbyte_padded() {
                    return Err(PyBufferError::new_err(
                        "the tensor's elements take a byte each although they are narrower, which a \
                         borrowed DLTensor cannot express; import the managed tensor instead",
                    ));
                }
                P::put_in_order(py, tensor)?;
                ptr::copy(&raw const (*tensor.tensor().as_raw()).dl_tensor, out, 1);
                Ok(())
            })
        })
    }
}

unsafe extern "C" fn to_py_object<P: Producer>(
    managed: *mut DLManagedTensorVersioned,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: the specification: attached, a valid managed tensor whose ownership is passed, a writable result.
    unsafe {
        raising(|py| {
            let tensor = Tensor::from_raw(managed).map_err(to_py_err)?;
            let tensor = PyTensor::from(Imported::new(tensor, Protocol::ExchangeApi));
            *out = P::object(py, tensor)?.into_ptr().cast();
            Ok(())
        })
    }
}

/// Every tensor that this table exports is synchronised with the default stream, on every device that has one.
unsafe extern "C" fn current_work_stream(
    _device_type: DLDeviceType,
    _device_id: i32,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: the specification: the result is writable.
    unsafe { *out = ptr::null_mut() };
    0
}

unsafe extern "C" fn allocate(
    prototype: *mut DLTensor,
    out: *mut *mut DLManagedTensorVersioned,
    context: *mut c_void,
    set_error: Option<DLPackSetError>,
) -> c_int {
    // SAFETY: the specification: a valid description, whose data is not used.
    let made = catch_unwind(AssertUnwindSafe(|| unsafe { like(prototype) }));
    let (kind, message): (&CStr, String) = match made {
        Ok(Ok(tensor)) => {
            // SAFETY: the specification: the result is writable.
            unsafe { *out = tensor.into_raw() };
            return 0;
        }
        Ok(Err(error @ Error::OutOfMemory { .. })) => (c"MemoryError", error.to_string()),
        Ok(Err(error)) => (c"BufferError", error.to_string()),
        Err(panic) => (c"RuntimeError", format!("dlbridge panicked: {}", text(&*panic))),
    };
    let message = CString::new(message).unwrap_or_default();
    if let Some(set_error) = set_error {
        // SAFETY: the caller's function with the caller's context, and two NUL-terminated strings.
        unsafe { set_error(context, kind.as_ptr(), message.as_ptr()) };
    }
    -1
}

/// A tensor as an object of a table's type, over the same memory.
pub fn export<'py>(
    py: Python<'py>,
    table: exchange_api::Table,
    tensor: &PyTensor,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: `to_raw` returns a valid managed tensor, which nothing else uses.
    unsafe { table.object_of(py, tensor.to_raw()?) }
}

/// A new tensor on the CPU with the dtype and shape of a description.
///
/// # Safety
/// `prototype` is NULL, or a description with `ndim` extents.
unsafe fn like(prototype: *const DLTensor) -> dlbridge::Result<Tensor> {
    // SAFETY: the caller promises NULL, or a description that lives during the call.
    let prototype =
        unsafe { prototype.as_ref() }.ok_or(Error::NullPointer { field: "the prototype" })?;
    let device = Device::from(prototype.device);
    if device != Device::CPU {
        return Err(Error::NotHostAccessible { device });
    }
    let ndim = usize::try_from(prototype.ndim)
        .map_err(|_| Error::InvalidNdim { ndim: i64::from(prototype.ndim) })?;
    let extents = match ndim {
        0 => &[][..],
        _ if prototype.shape.is_null() => {
            return Err(Error::NullPointer { field: "the shape of the prototype" });
        }
        // SAFETY: not NULL, and the caller promises `ndim` extents.
        _ => unsafe { slice::from_raw_parts(prototype.shape, ndim) },
    };
    let mut shape = Vec::with_capacity(ndim);
    for (axis, &extent) in extents.iter().enumerate() {
        let extent = usize::try_from(extent).map_err(|_| Error::NegativeExtent { axis, extent })?;
        shape.push(extent);
    }
    Tensor::zeroed(prototype.dtype.into(), shape)
}
