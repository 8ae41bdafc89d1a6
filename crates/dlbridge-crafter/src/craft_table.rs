//! A C exchange API with every field settable, for a type of the tests.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use dlbridge_sys::{
    DLDeviceType, DLManagedTensorVersioned, DLPackExchangeAPI, DLPackExchangeAPIHeader,
    DLPackSetError, DLPackVersion, DLTensor,
};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::capsule::{Held, Managed};
use crate::craft::Crafted;

/// What the function for the stream answers, and for which devices it was asked.
static STREAM: Mutex<(usize, Vec<(i32, i32)>)> = Mutex::new((0, Vec::new()));

/// A capsule over a table whose functions go to methods of the object: `_crafted()` returns the `Crafted` that it
/// lends. The object that a managed tensor becomes is a `Held`. The functions named in `missing` are NULL;
/// `stream` is what `current_work_stream` answers; `previous` is the address of an older table.
#[pyfunction]
#[pyo3(signature = (
    *, version=(1, 3), missing=Vec::new(), name="dlpack_exchange_api".to_owned(), stream=0, previous=0
))]
pub(crate) fn craft_table(
    py: Python<'_>,
    version: (u32, u32),
    missing: Vec<String>,
    name: String,
    stream: usize,
    previous: usize,
) -> PyResult<Bound<'_, PyCapsule>> {
    const FUNCTIONS: [&str; 5] = [
        "managed_tensor_allocator",
        "managed_tensor_from_py_object_no_sync",
        "managed_tensor_to_py_object_no_sync",
        "dltensor_from_py_object_no_sync",
        "current_work_stream",
    ];
    if let Some(unknown) = missing.iter().find(|name| !FUNCTIONS.contains(&name.as_str())) {
        return Err(PyValueError::new_err(format!("a table has no function {unknown}")));
    }
    STREAM.lock().unwrap_or_else(PoisonError::into_inner).0 = stream;
    let is_there = |name: &str| !missing.iter().any(|missing| missing == name);
    // Kept: a table lives as long as the process.
    let table = Box::leak(Box::new(DLPackExchangeAPI {
        header: DLPackExchangeAPIHeader {
            version: DLPackVersion { major: version.0, minor: version.1 },
            prev_api: ptr::with_exposed_provenance_mut(previous),
        },
        managed_tensor_allocator: is_there(FUNCTIONS[0]).then_some(allocate),
        managed_tensor_from_py_object_no_sync: is_there(FUNCTIONS[1]).then_some(from_py_object),
        managed_tensor_to_py_object_no_sync: is_there(FUNCTIONS[2]).then_some(to_py_object),
        dltensor_from_py_object_no_sync: is_there(FUNCTIONS[3]).then_some(borrow),
        current_work_stream: is_there(FUNCTIONS[4]).then_some(current_work_stream),
    }));
    let name = CString::new(name)?.into_raw().cast_const();
    // SAFETY: attached; the table and the name stay.
    unsafe {
        let pointer = ptr::from_mut(table);
        pointer.expose_provenance();
        let capsule = ffi::PyCapsule_New(pointer.cast(), name, None);
        Ok(Bound::from_owned_ptr_or_err(py, capsule)?.cast_into_unchecked())
    }
}

/// For which devices crafted tables were asked for a stream since the last time.
#[pyfunction]
pub(crate) fn stream_asked() -> Vec<(i32, i32)> {
    std::mem::take(&mut STREAM.lock().unwrap_or_else(PoisonError::into_inner).1)
}

/// The tensor that an object lends.
///
/// # Safety
/// Attached; an object.
unsafe fn crafted(object: *mut c_void) -> PyResult<Managed> {
    // SAFETY: by contract.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: by contract.
    let object = unsafe { Bound::from_borrowed_ptr_or_err(py, object.cast()) }?;
    let crafted = object.call_method0("_crafted")?.cast_into::<Crafted>()?;
    Ok(crafted.get().managed())
}

/// 0, or -1 with the exception set.
///
/// # Safety
/// Attached.
unsafe fn status(result: PyResult<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            // SAFETY: by contract.
            error.restore(unsafe { Python::assume_attached() });
            -1
        }
    }
}

unsafe extern "C" fn from_py_object(
    object: *mut c_void,
    out: *mut *mut DLManagedTensorVersioned,
) -> c_int {
    // SAFETY: the specification: attached, an object, and a place to write to.
    unsafe { status(crafted(object).map(|managed| *out = managed.address.cast())) }
}

unsafe extern "C" fn borrow(object: *mut c_void, out: *mut DLTensor) -> c_int {
    // SAFETY: the specification, as above; Named.
    unsafe {
        status(crafted(object).map(|managed| {
            let managed: *const DLManagedTensorVersioned = managed.address.cast();
            ptr::copy(&raw const (*managed).dl_tensor, out, 1);
        }))
    }
}

unsafe extern "C" fn to_py_object(
    managed: *mut DLManagedTensorVersioned,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: the specification: attached, a managed tensor that is given away, a place to write to.
    unsafe {
        let py = Python::assume_attached();
        let held = Held::new(Managed { address: managed.cast(), versioned: true });
        status(Bound::new(py, held).map(|held| *out = held.into_ptr().cast()))
    }
}

unsafe extern "C" fn current_work_stream(
    device_type: DLDeviceType,
    device_id: i32,
    out: *mut *mut c_void,
) -> c_int {
    let mut stream = STREAM.lock().unwrap_or_else(PoisonError::into_inner);
    stream.1.push((device_type.0, device_id));
    // SAFETY: the specification: a place to write to.
    unsafe { *out = ptr::with_exposed_provenance_mut(stream.0) };
    0
}

/// Nothing is made: what a consumer does with a refusal is what can be tested.
unsafe extern "C" fn allocate(
    _prototype: *mut DLTensor,
    _out: *mut *mut DLManagedTensorVersioned,
    context: *mut c_void,
    set_error: Option<DLPackSetError>,
) -> c_int {
    let (kind, message): (*const c_char, *const c_char) =
        (c"MemoryError".as_ptr(), c"a crafted table makes no tensors".as_ptr());
    if let Some(set_error) = set_error {
        // SAFETY: the specification: the function is called with the context.
        unsafe { set_error(context, kind, message) };
    }
    -1
}
