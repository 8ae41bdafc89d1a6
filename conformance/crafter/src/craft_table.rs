//! A C exchange API with every field settable, for a type of the tests.

use std::ffi::{CString, c_int, c_void};
use std::ptr;
use std::sync::Mutex;

use dlbridge_sys::{
    DLDeviceType, DLManagedTensorVersioned, DLPackExchangeAPI, DLPackExchangeAPIHeader,
    DLPackSetError, DLPackVersion, DLTensor,
};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arguments::Items;
use crate::craft::Crafted;
use crate::held::Held;
use crate::made::{self, What, locked};
use crate::managed::{Managed, tensor_fields};
use crate::record::is_attached;

/// The behaviour of all crafted tables. It is global, because their functions get no argument that identifies the
/// table.
struct Behaviour {
    /// None makes `current_work_stream` fail.
    stream: Option<usize>,
    /// The devices that `current_work_stream` was called for.
    asked: Vec<(i32, i32)>,
    /// The allocator calls it.
    allocate: Option<Py<PyAny>>,
    /// The status that a failing function returns.
    failure: c_int,
}

static BEHAVIOUR: Mutex<Behaviour> =
    Mutex::new(Behaviour { stream: Some(0), asked: Vec::new(), allocate: None, failure: -1 });

/// Makes a capsule over a table. To export an object, or to let a caller borrow it, the table calls its `_crafted()`,
/// which returns a `Crafted`, or None to fail without an exception. An import makes a `Held`. The functions named in
/// `missing` are NULL; `previous` is the address of an older crafted table, or 0.
///
/// The other arguments apply to all crafted tables from then on. `stream` is the answer of `current_work_stream`, which
/// fails with None, and `failure` the status that a failing function returns. `allocate(shape, dtype, device, gil)`
/// returns the status of the allocator, the `Crafted` that it makes or None, and the errors that it reports as (kind,
/// message); `gil` says whether the allocator was called under the GIL. Without `allocate`, the allocator fails.
#[pyfunction]
#[pyo3(signature = (
    *, version=(1, 3), missing=Items(Vec::new()), name="dlpack_exchange_api".to_owned(), previous=0, stream=Some(0),
    allocate=None, failure=-1
))]
#[allow(clippy::too_many_arguments, reason = "one for each thing that can be set")]
pub(crate) fn craft_table(
    py: Python<'_>,
    version: (u32, u32),
    missing: Items<String>,
    name: String,
    previous: usize,
    stream: Option<usize>,
    allocate: Option<Py<PyAny>>,
    failure: c_int,
) -> PyResult<Bound<'_, PyCapsule>> {
    const FUNCTIONS: [&str; 5] = [
        "managed_tensor_allocator",
        "managed_tensor_from_py_object_no_sync",
        "managed_tensor_to_py_object_no_sync",
        "dltensor_from_py_object_no_sync",
        "current_work_stream",
    ];
    if let Some(unknown) = missing.0.iter().find(|name| !FUNCTIONS.contains(&name.as_str())) {
        return Err(PyValueError::new_err(format!("a table does not have a function {unknown}")));
    }
    if previous != 0 && !matches!(made::at(previous), Some(What::Table)) {
        return Err(PyValueError::new_err(format!(
            "previous {previous:#x} is not the address of a crafted table"
        )));
    }
    let name = CString::new(name)?.into_raw().cast_const();
    let behaviour = Behaviour { stream, asked: Vec::new(), allocate, failure };
    // The lock is released before the old `allocate` is dropped, because dropping it can run Python code.
    let old = std::mem::replace(&mut *locked(&BEHAVIOUR), behaviour);
    drop(old);
    let is_there = |name: &str| !missing.0.iter().any(|missing| missing == name);
    // Never freed, because a table must live as long as the process.
    let table = Box::leak(Box::new(DLPackExchangeAPI {
        header: DLPackExchangeAPIHeader {
            version: DLPackVersion { major: version.0, minor: version.1 },
            prev_api: ptr::with_exposed_provenance_mut(previous),
        },
        managed_tensor_allocator: is_there(FUNCTIONS[0]).then_some(allocator),
        managed_tensor_from_py_object_no_sync: is_there(FUNCTIONS[1]).then_some(from_py_object),
        managed_tensor_to_py_object_no_sync: is_there(FUNCTIONS[2]).then_some(to_py_object),
        dltensor_from_py_object_no_sync: is_there(FUNCTIONS[3]).then_some(borrow),
        current_work_stream: is_there(FUNCTIONS[4]).then_some(current_work_stream),
    }));
    // SAFETY: attached; the table and the name are never freed.
    unsafe {
        let pointer = ptr::from_mut(table);
        made::add(pointer.expose_provenance(), What::Table);
        let capsule = ffi::PyCapsule_New(pointer.cast(), name, None);
        Ok(Bound::from_owned_ptr_or_err(py, capsule)?.cast_into_unchecked())
    }
}

/// Returns and clears the devices that `current_work_stream` was called for since the last call of this function, or
/// since the last crafted table.
#[pyfunction]
pub(crate) fn stream_asked() -> Vec<(i32, i32)> {
    std::mem::take(&mut locked(&BEHAVIOUR).asked)
}

/// The struct of the `Crafted` that the object's `_crafted()` returns; an error without an exception for None.
///
/// # Safety
/// The thread is attached, and `object` is a Python object.
unsafe fn crafted(object: *mut c_void) -> Result<*mut DLManagedTensorVersioned, Option<PyErr>> {
    // SAFETY: the caller is attached.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the caller passes a Python object.
    let object = unsafe { Bound::from_borrowed_ptr_or_err(py, object.cast()) }?;
    let crafted = object.call_method0("_crafted")?;
    if crafted.is_none() {
        return Err(None);
    }
    Ok(crafted.cast_into::<Crafted>().map_err(PyErr::from)?.get().as_versioned()?)
}

/// Returns 0, or sets the exception, if there is one, and returns the status of a failure.
///
/// # Safety
/// The thread is attached.
unsafe fn status(result: Result<(), Option<PyErr>>) -> c_int {
    let Err(error) = result else { return 0 };
    if let Some(error) = error {
        // SAFETY: the caller is attached.
        error.restore(unsafe { Python::assume_attached() });
    }
    locked(&BEHAVIOUR).failure
}

unsafe extern "C" fn from_py_object(
    object: *mut c_void,
    out: *mut *mut DLManagedTensorVersioned,
) -> c_int {
    // SAFETY: the specification requires an attached caller, a Python object, and a place to write to.
    unsafe { status(crafted(object).map(|managed| *out = managed)) }
}

unsafe extern "C" fn borrow(object: *mut c_void, out: *mut DLTensor) -> c_int {
    // SAFETY: the specification requires an attached caller, a Python object, and a place to write to; the crafted
    // struct is never freed (Kept).
    unsafe {
        status(crafted(object).map(|managed| {
            ptr::copy(&raw const (*managed).dl_tensor, out, 1);
        }))
    }
}

unsafe extern "C" fn to_py_object(
    managed: *mut DLManagedTensorVersioned,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: the specification requires an attached caller, a managed tensor that the caller gives away, and a place
    // to write to.
    unsafe {
        let py = Python::assume_attached();
        let held = Held::new(Managed { address: managed.cast(), versioned: true });
        status(Bound::new(py, held).map(|held| *out = held.into_ptr().cast()).map_err(Some))
    }
}

unsafe extern "C" fn current_work_stream(
    device_type: DLDeviceType,
    device_id: i32,
    out: *mut *mut c_void,
) -> c_int {
    let mut behaviour = locked(&BEHAVIOUR);
    behaviour.asked.push((device_type.0, device_id));
    let Some(stream) = behaviour.stream else { return behaviour.failure };
    // SAFETY: the specification requires a place to write to.
    unsafe { *out = ptr::with_exposed_provenance_mut(stream) };
    0
}

/// The status that the allocator returns, the tensor that it makes, and the errors that it reports.
type Allocated = (c_int, Option<Py<Crafted>>, Items<(String, String)>);

/// Asks a Python function how the allocator shall behave.
///
/// # Safety
/// Shape and strides of the prototype are NULL, or have `ndim` numbers.
unsafe fn asked(
    py: Python<'_>,
    allocate: &Py<PyAny>,
    prototype: &DLTensor,
    gil: bool,
) -> PyResult<Allocated> {
    // SAFETY: shape and strides are as `tensor_fields` requires, as the caller guarantees the same.
    let fields = unsafe { tensor_fields(py, prototype) }?;
    let field = |name| fields.get_item(name);
    let arguments = (field("shape")?, field("dtype")?, field("device")?, gil);
    allocate.bind(py).call1(arguments)?.extract()
}

unsafe extern "C" fn allocator(
    prototype: *mut DLTensor,
    out: *mut *mut DLManagedTensorVersioned,
    context: *mut c_void,
    set_error: Option<DLPackSetError>,
) -> c_int {
    let gil = is_attached();
    Python::attach(|py| {
        let allocate = locked(&BEHAVIOUR).allocate.as_ref().map(|allocate| allocate.clone_ref(py));
        let answer = match allocate {
            // SAFETY: the specification requires a prototype with its shape.
            Some(allocate) => unsafe { asked(py, &allocate, &*prototype, gil) },
            None => Err(PyMemoryError::new_err("a crafted table makes no tensors")),
        };
        let (status, crafted, reports) = answer.unwrap_or_else(|error| {
            (
                locked(&BEHAVIOUR).failure,
                None,
                Items(vec![(error.get_type(py).to_string(), error.value(py).to_string())]),
            )
        });
        if let Some(managed) = crafted.and_then(|crafted| crafted.get().as_versioned().ok()) {
            // SAFETY: the specification requires a place to write to.
            unsafe { *out = managed };
        }
        for (kind, message) in reports.0 {
            let texts = (CString::new(kind), CString::new(message));
            if let (Some(set_error), (Ok(kind), Ok(message))) = (set_error, texts) {
                // SAFETY: as specified, the function gets the context that came with it, and two C strings.
                unsafe { set_error(context, kind.as_ptr(), message.as_ptr()) };
            }
        }
        status
    })
}
