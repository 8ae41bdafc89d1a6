//! Calls the functions of a type's C exchange API.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use dlbridge_sys::{
    DLDataType, DLDataTypeCode, DLDevice, DLDeviceType, DLManagedTensorVersioned,
    DLPackExchangeAPI, DLPackExchangeAPIHeader, DLTensor,
};
use pyo3::exceptions::{PyNotImplementedError, PyRecursionError, PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::Items;
use crate::craft::Crafted;
use crate::delete::on_a_thread;
use crate::held::Held;
use crate::made::{self, What, locked};
use crate::managed::{Managed, tensor_fields};

pub(crate) const NAME: &CStr = c"dlpack_exchange_api";

/// The tables behind a capsule `dlpack_exchange_api`: the table that it points to, and the older ones.
///
/// The methods call the functions of the first table of major version 1. They return (status, answer, exception): the
/// status of the C function, its result or None, and the exception that it set or None.
///
/// Unsafe: the functions belong to a library, which may assume that an object is of the class that has the table.
#[pyclass(frozen, module = "dlbridge._core._crafter")]
pub(crate) struct Table {
    /// The address of the first table.
    #[pyo3(get)]
    address: usize,
    /// The version of the first table and of each older one.
    #[pyo3(get)]
    versions: Vec<(u32, u32)>,
    table: Option<&'static DLPackExchangeAPI>,
}

// SAFETY: a table does not change and lives as long as the process (Tables).
unsafe impl Send for Table {}
// SAFETY: shared access reads a table, which does not change and lives as long as the process (Tables).
unsafe impl Sync for Table {}

/// More tables than DLPack has versions: such a chain links back to itself.
const TOO_MANY: usize = 100;

/// (status, answer, exception) of a call.
type Answer<'py> = (c_int, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

/// Clears and returns the exception that is set.
fn taken(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    PyErr::take(py).map(|error| error.into_value(py).into_bound(py).into_any())
}

/// Wraps a managed tensor that a function returned in a `Held`; None for NULL.
///
/// # Safety
/// `managed` is NULL, or a struct that a library has given away and that satisfies the invariant Held.
unsafe fn held(
    py: Python<'_>,
    managed: *mut DLManagedTensorVersioned,
) -> PyResult<Option<Bound<'_, PyAny>>> {
    if managed.is_null() {
        return Ok(None);
    }
    let managed = Managed { address: managed.cast(), versioned: true };
    // SAFETY: the caller gives away a struct that satisfies Held, as it is not NULL.
    Ok(Some(Bound::new(py, unsafe { Held::new(managed) })?.into_any()))
}

/// How many calls may be nested on a thread. A crafted table calls Python, which may call the table again.
const DEEPEST: usize = 100;

thread_local! {
    static RUNNING: Cell<usize> = const { Cell::new(0) };
}

/// Counts a nested call of a table's function until it is dropped.
struct Call;

impl Call {
    fn new() -> PyResult<Self> {
        match RUNNING.get() {
            DEEPEST => Err(PyRecursionError::new_err(format!(
                "{DEEPEST} calls of tables run inside each other"
            ))),
            running => {
                RUNNING.set(running + 1);
                Ok(Self)
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        RUNNING.set(RUNNING.get() - 1);
    }
}

impl Table {
    /// A function of the table. NotImplementedError, with `name`, if the table does not have it.
    fn function<F>(
        &self,
        name: &str,
        field: impl Fn(&DLPackExchangeAPI) -> Option<F>,
    ) -> PyResult<(Call, F)> {
        let table = self.table.ok_or_else(|| PyNotImplementedError::new_err("no table of major 1"));
        let null = || PyNotImplementedError::new_err(format!("{name} is NULL"));
        Ok((Call::new()?, field(table?).ok_or_else(null)?))
    }
}

#[pymethods]
impl Table {
    #[new]
    fn new(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        // SAFETY: attached; the arguments are an object and a C string. A capsule of this name holds a table, whose
        // chain lives as long as the process; one of major version 1 has the layout of `DLPackExchangeAPI` (Tables,
        // Named).
        unsafe {
            if ffi::PyCapsule_IsValid(capsule.as_ptr(), NAME.as_ptr()) == 0 {
                return Err(PyValueError::new_err(format!("{} holds no table", capsule.repr()?)));
            }
            let first = ffi::PyCapsule_GetPointer(capsule.as_ptr(), NAME.as_ptr());
            if matches!(made::at(first.addr()), Some(What::Struct | What::Numbers(_))) {
                return Err(PyValueError::new_err(
                    "the capsule holds a crafted tensor and no table",
                ));
            }
            let (mut chain, mut table) = (Vec::new(), None);
            let mut next: *const DLPackExchangeAPIHeader = first.cast();
            while !next.is_null() && chain.len() < TOO_MANY {
                let version = (*next).version;
                chain.push((version.major, version.minor));
                if version.major == 1 && table.is_none() {
                    table = Some(&*next.cast::<DLPackExchangeAPI>());
                }
                next = (*next).prev_api;
            }
            Ok(Self { address: first.addr(), versions: chain, table })
        }
    }

    /// The version of the table whose functions are called; None if no table has major version 1.
    fn version(&self) -> Option<(u32, u32)> {
        self.table.map(|table| (table.header.version.major, table.header.version.minor))
    }

    /// For each function, whether the table has it.
    fn functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let functions = PyDict::new(py);
        let Some(table) = self.table else { return Ok(functions) };
        for (name, is_there) in [
            ("managed_tensor_allocator", table.managed_tensor_allocator.is_some()),
            (
                "managed_tensor_from_py_object_no_sync",
                table.managed_tensor_from_py_object_no_sync.is_some(),
            ),
            (
                "managed_tensor_to_py_object_no_sync",
                table.managed_tensor_to_py_object_no_sync.is_some(),
            ),
            ("dltensor_from_py_object_no_sync", table.dltensor_from_py_object_no_sync.is_some()),
            ("current_work_stream", table.current_work_stream.is_some()),
        ] {
            functions.set_item(name, is_there)?;
        }
        Ok(functions)
    }

    /// `managed_tensor_from_py_object_no_sync`: the answer is a `Held`.
    fn exported<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Answer<'py>> {
        let py = object.py();
        let (_call, function) = self
            .function("managed_tensor_from_py_object_no_sync", |table| {
                table.managed_tensor_from_py_object_no_sync
            })?;
        let mut managed = ptr::null_mut();
        // SAFETY: attached; the arguments are an object and a place to write to.
        let status = unsafe { function(object.as_ptr().cast(), &mut managed) };
        let error = taken(py);
        // SAFETY: the function left NULL, or wrote a managed tensor that it gives away, which lives as Held requires.
        Ok((status, unsafe { held(py, managed) }?, error))
    }

    /// `dltensor_from_py_object_no_sync`: the answer is the fields of the borrowed tensor.
    fn borrowed<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Answer<'py>> {
        let py = object.py();
        let (_call, function) = self.function("dltensor_from_py_object_no_sync", |table| {
            table.dltensor_from_py_object_no_sync
        })?;
        let mut tensor = MaybeUninit::<DLTensor>::zeroed();
        // SAFETY: attached; the arguments are an object and a place to write to.
        let status = unsafe { function(object.as_ptr().cast(), tensor.as_mut_ptr()) };
        let error = taken(py);
        let fields = match status {
            // SAFETY: zero is a valid value of every field. The object lives, so its shape and strides do too.
            0 => Some(unsafe { tensor_fields(py, &tensor.assume_init()) }?.into_any()),
            _ => None,
        };
        Ok((status, fields, error))
    }

    /// `managed_tensor_to_py_object_no_sync` of a `Crafted`, or of a `Held`, which it gives away: the answer is the object.
    fn imported<'py>(&self, given: &Bound<'py, PyAny>) -> PyResult<Answer<'py>> {
        let py = given.py();
        let (_call, function) = self.function("managed_tensor_to_py_object_no_sync", |table| {
            table.managed_tensor_to_py_object_no_sync
        })?;
        let managed = match given.cast::<Held>() {
            Ok(held) => held.get().give_away()?.as_versioned()?,
            Err(_) => given.cast::<Crafted>()?.get().as_versioned()?,
        };
        let mut object = ptr::null_mut();
        // SAFETY: attached; the arguments are a managed tensor that is given away, and a place to write to.
        let status = unsafe { function(managed, &mut object) };
        let error = taken(py);
        let object = match status {
            // SAFETY: the function left NULL, or wrote a new reference.
            0 => unsafe { Bound::from_owned_ptr_or_opt(py, object.cast()) },
            _ => None,
        };
        Ok((status, object, error))
    }

    /// `managed_tensor_allocator`: the answer is a `Held`. Also returns the errors that the function reported, as
    /// (kind, message). The function runs under the GIL, or on a thread that Python does not know if `native_thread` is
    /// set.
    #[pyo3(signature = (shape, dtype, device, *, native_thread=false))]
    fn allocated<'py>(
        &self,
        py: Python<'py>,
        shape: Items<i64>,
        dtype: (u8, u8, u16),
        device: (i32, i32),
        native_thread: bool,
    ) -> PyResult<(Answer<'py>, Vec<(String, String)>)> {
        let (_call, function) =
            self.function("managed_tensor_allocator", |table| table.managed_tensor_allocator)?;
        let call = move || {
            let mut shape = shape.0;
            let mut prototype = DLTensor {
                data: ptr::null_mut(),
                device: DLDevice { device_type: DLDeviceType(device.0), device_id: device.1 },
                ndim: shape.len() as i32,
                dtype: DLDataType { code: DLDataTypeCode(dtype.0), bits: dtype.1, lanes: dtype.2 },
                shape: shape.as_mut_ptr(),
                strides: ptr::null_mut(),
                byte_offset: 0,
            };
            let reported = Mutex::new(Vec::new());
            let context = ptr::from_ref(&reported).cast_mut().cast();
            let mut managed = ptr::null_mut();
            // SAFETY: the arguments are a prototype, a place to write to, and `report` with its context. All live until
            // the function returns.
            let status = unsafe { function(&mut prototype, &mut managed, context, Some(report)) };
            let reported = reported.into_inner().unwrap_or_else(PoisonError::into_inner);
            (status, Managed { address: managed.cast(), versioned: true }, reported)
        };
        let (status, managed, reported) = match native_thread {
            true => py
                .detach(|| on_a_thread(call).map(JoinHandle::join))?
                .map_err(|_| PyRuntimeError::new_err("the thread of the allocator panicked"))?,
            false => call(),
        };
        let error = taken(py);
        // SAFETY: the function left NULL, or wrote a managed tensor that it gives away, which lives as Held requires.
        let held = unsafe { held(py, managed.address.cast()) }?;
        Ok(((status, held, error), reported))
    }

    /// `current_work_stream`: the answer is the handle as a number.
    fn work_stream<'py>(&self, py: Python<'py>, device: (i32, i32)) -> PyResult<Answer<'py>> {
        let (_call, function) =
            self.function("current_work_stream", |table| table.current_work_stream)?;
        let mut stream: *mut c_void = ptr::null_mut();
        // SAFETY: attached; `stream` is a place to write to.
        let status = unsafe { function(DLDeviceType(device.0), device.1, &mut stream) };
        let error = taken(py);
        Ok((status, Some(stream.addr().into_pyobject(py)?.into_any()), error))
    }
}

/// Collects the errors that an allocator reports.
unsafe extern "C" fn report(context: *mut c_void, kind: *const c_char, message: *const c_char) {
    let text = |text: *const c_char| match text.is_null() {
        true => String::new(),
        // SAFETY: the specification requires C strings.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    };
    // SAFETY: `context` is the one that `allocated` passed, and `allocated` is still running.
    let reported = unsafe { &*context.cast::<Mutex<Vec<(String, String)>>>() };
    let report = (text(kind), text(message));
    locked(reported).push(report);
}
