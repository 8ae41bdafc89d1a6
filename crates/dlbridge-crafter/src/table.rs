//! The C exchange API of a type, called function by function.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use dlbridge_sys::{
    DLDataType, DLDataTypeCode, DLDevice, DLDeviceType, DLPackExchangeAPI, DLTensor,
};
use pyo3::exceptions::{PyNotImplementedError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::capsule::{Held, Managed, tensor_fields};
use crate::craft::Crafted;

pub(crate) const NAME: &CStr = c"dlpack_exchange_api";

/// The table in a capsule `dlpack_exchange_api`. Its functions return (status, answer, exception): what the C
/// function returned, what it made or None, and the exception that it has set or None.
#[pyclass(frozen, module = "dlbridge._core._crafter")]
pub(crate) struct Table {
    table: &'static DLPackExchangeAPI,
}

// SAFETY: a table is a constant.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// What a function of a table did.
type Answer<'py> = (c_int, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

fn answered<'py>(py: Python<'py>, status: c_int, answer: Option<Bound<'py, PyAny>>) -> Answer<'py> {
    let error = PyErr::take(py).map(|error| error.into_value(py).into_bound(py).into_any());
    (status, answer, error)
}

fn missing(function: &str) -> PyErr {
    PyNotImplementedError::new_err(format!("{function} is NULL"))
}

#[pymethods]
impl Table {
    #[new]
    fn new(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        // SAFETY: attached; an object and a name; Named.
        unsafe {
            if ffi::PyCapsule_IsValid(capsule.as_ptr(), NAME.as_ptr()) == 0 {
                return Err(PyValueError::new_err(format!("{} holds no table", capsule.repr()?)));
            }
            let table = ffi::PyCapsule_GetPointer(capsule.as_ptr(), NAME.as_ptr());
            Ok(Self { table: &*table.cast::<DLPackExchangeAPI>() })
        }
    }

    /// The address of the table.
    #[getter]
    fn address(&self) -> usize {
        ptr::from_ref(self.table).addr()
    }

    /// The version of the table, and the address of the one before it.
    fn header(&self) -> ((u32, u32), usize) {
        let header = &self.table.header;
        ((header.version.major, header.version.minor), header.prev_api.addr())
    }

    /// Which functions there are.
    fn functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let functions = PyDict::new(py);
        let table = self.table;
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
        let function = self.table.managed_tensor_from_py_object_no_sync;
        let function = function.ok_or_else(|| missing("managed_tensor_from_py_object_no_sync"))?;
        let mut managed = ptr::null_mut();
        // SAFETY: attached; an object, and a place to write to.
        let status = unsafe { function(object.as_ptr().cast(), &mut managed) };
        let held = match managed.is_null() {
            true => None,
            false => {
                let managed = Managed { address: managed.cast(), versioned: true };
                Some(Bound::new(py, Held::new(managed))?.into_any())
            }
        };
        Ok(answered(py, status, held))
    }

    /// `dltensor_from_py_object_no_sync`: the answer is the fields of the borrowed tensor.
    fn borrowed<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Answer<'py>> {
        let py = object.py();
        let function = self.table.dltensor_from_py_object_no_sync;
        let function = function.ok_or_else(|| missing("dltensor_from_py_object_no_sync"))?;
        let mut tensor = MaybeUninit::<DLTensor>::zeroed();
        // SAFETY: attached; an object, and a place to write to.
        let status = unsafe { function(object.as_ptr().cast(), tensor.as_mut_ptr()) };
        let (status, _, error) = answered(py, status, None);
        let fields = match status {
            // SAFETY: zero is a value of every field; the object lives, and so do shape and strides.
            0 => Some(unsafe { tensor_fields(py, &tensor.assume_init()) }?.into_any()),
            _ => None,
        };
        Ok((status, fields, error))
    }

    /// `managed_tensor_to_py_object_no_sync` of a crafted tensor: the answer is the object.
    fn imported<'py>(&self, py: Python<'py>, crafted: &Crafted) -> PyResult<Answer<'py>> {
        let function = self.table.managed_tensor_to_py_object_no_sync;
        let function = function.ok_or_else(|| missing("managed_tensor_to_py_object_no_sync"))?;
        let mut object = ptr::null_mut();
        // SAFETY: attached; a managed tensor that is given away, and a place to write to.
        let status = unsafe { function(crafted.managed().address.cast(), &mut object) };
        // SAFETY: NULL, or a new reference.
        let object = unsafe { Bound::from_owned_ptr_or_opt(py, object.cast()) };
        Ok(answered(py, status, object))
    }

    /// `managed_tensor_allocator`: the answer is a `Held`; and what the function reported, as (kind, message).
    fn allocated<'py>(
        &self,
        py: Python<'py>,
        shape: Vec<i64>,
        dtype: (u8, u8, u16),
        device: (i32, i32),
    ) -> PyResult<(Answer<'py>, Vec<(String, String)>)> {
        let function = self.table.managed_tensor_allocator;
        let function = function.ok_or_else(|| missing("managed_tensor_allocator"))?;
        let mut shape = shape;
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
        let (mut managed, context) = (ptr::null_mut(), ptr::from_ref(&reported).cast_mut().cast());
        // SAFETY: a description, a place to write to, and a function with its context.
        let status = unsafe { function(&mut prototype, &mut managed, context, Some(report)) };
        let held = match managed.is_null() || status != 0 {
            true => None,
            false => {
                let managed = Managed { address: managed.cast(), versioned: true };
                Some(Bound::new(py, Held::new(managed))?.into_any())
            }
        };
        let reported = reported.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((answered(py, status, held), reported))
    }

    /// `current_work_stream`: the answer is the handle as a number.
    fn work_stream<'py>(&self, py: Python<'py>, device: (i32, i32)) -> PyResult<Answer<'py>> {
        let function = self.table.current_work_stream;
        let function = function.ok_or_else(|| missing("current_work_stream"))?;
        let mut stream: *mut c_void = ptr::null_mut();
        // SAFETY: attached; a place to write to.
        let status = unsafe { function(DLDeviceType(device.0), device.1, &mut stream) };
        let stream = stream.addr().into_pyobject(py)?.into_any();
        Ok(answered(py, status, Some(stream)))
    }
}

/// What an allocator reports errors to.
unsafe extern "C" fn report(context: *mut c_void, kind: *const c_char, message: *const c_char) {
    let text = |text: *const c_char| match text.is_null() {
        true => String::new(),
        // SAFETY: the specification: strings.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    };
    // SAFETY: the context that `allocate` gave, while it runs.
    let reported = unsafe { &*context.cast::<Mutex<Vec<(String, String)>>>() };
    let report = (text(kind), text(message));
    reported.lock().unwrap_or_else(PoisonError::into_inner).push(report);
}
