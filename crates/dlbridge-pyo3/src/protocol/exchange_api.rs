//! The C exchange API of DLPack, a table of functions in an attribute of a type: the import.
//!
//! Source: `DLPackExchangeAPI` in `dlpack.h` 1.3.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use dlbridge::sys::{
    DLDeviceType, DLManagedTensorVersioned, DLPACK_MAJOR_VERSION, DLPackCurrentWorkStream,
    DLPackDLTensorFromPyObjectNoSync, DLPackExchangeAPI, DLPackExchangeAPIHeader,
    DLPackManagedTensorFromPyObjectNoSync, DLPackManagedTensorToPyObjectNoSync, DLPackVersion,
    DLTensor,
};
use dlbridge::{Device, Tensor};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyType};

use crate::imported::{Imported, Protocol};
use crate::python::error::to_py_err;
use crate::python::objects::attr_if_any;

/// The name of the capsule in the type's attribute.
pub(crate) const CAPSULE_NAME: &CStr = c"dlpack_exchange_api";

/// The functions of a table that dlbridge uses. A table lives as long as the process.
#[derive(Clone, Copy)]
pub struct Table {
    from_py_object: DLPackManagedTensorFromPyObjectNoSync,
    to_py_object: DLPackManagedTensorToPyObjectNoSync,
    describe: Option<DLPackDLTensorFromPyObjectNoSync>,
    current_work_stream: Option<DLPackCurrentWorkStream>,
}

impl Table {
    /// The table of a type; `None` if the type lacks a usable table.
    pub fn of_type(object_type: &Bound<'_, PyType>) -> PyResult<Option<Self>> {
        let found = attr_if_any(object_type, "__dlpack_c_exchange_api__")?;
        let Some(attribute) = found else { return Ok(None) };
        let Ok(capsule) = attribute.cast_into::<PyCapsule>() else { return Ok(None) };
        if !capsule.is_valid_checked(Some(CAPSULE_NAME)) {
            return Ok(None);
        }
        let newest = capsule.pointer_checked(Some(CAPSULE_NAME))?;
        // SAFETY: the name shows that this is a table, which lives as long as the process by the specification.
        Ok(unsafe { Self::of_version(newest.cast()) })
    }

    /// Among a table and its older versions, the table of our major version.
    ///
    /// # Safety
    /// A valid table, which lives as long as the process.
    unsafe fn of_version(newest: NonNull<DLPackExchangeAPIHeader>) -> Option<Self> {
        /// More major versions than will exist: a table may lead back to itself.
        const MOST: u32 = 64;
        let (mut header, mut seen) = (newest, 0);
        // SAFETY: every version of the table begins with a header, whose `prev_api` is NULL or another table.
        while unsafe { header.as_ref() }.version.major > DLPACK_MAJOR_VERSION && seen < MOST {
            seen += 1;
            // SAFETY: `header` is a table, so its `prev_api` is NULL or another table.
            header = NonNull::new(unsafe { header.as_ref() }.prev_api)?;
        }
        // SAFETY: `header` is the table of the caller or an older one that it leads to, and each begins with a header.
        if unsafe { header.as_ref() }.version.major != DLPACK_MAJOR_VERSION {
            return None;
        }
        // SAFETY: a table of our major version has at least our fields, and is constant.
        let table = unsafe { header.cast::<DLPackExchangeAPI>().as_ref() };
        Some(Self {
            from_py_object: table.managed_tensor_from_py_object_no_sync?,
            to_py_object: table.managed_tensor_to_py_object_no_sync?,
            describe: table.dltensor_from_py_object_no_sync,
            current_work_stream: table.current_work_stream,
        })
    }

    /// The description of an object of the type, without flags; `None` if the table has no function for it. Its
    /// extents and strides belong to the object, and stay until other code runs.
    #[inline]
    pub(super) fn describe(self, object: &Bound<'_, PyAny>) -> PyResult<Option<DLTensor>> {
        let Some(describe) = self.describe else { return Ok(None) };
        let mut found = MaybeUninit::<DLTensor>::uninit();
        // SAFETY: attached; an object of the table's type, and a writable result.
        if unsafe { describe(object.as_ptr().cast(), found.as_mut_ptr()) } != 0 {
            return Err(failed(object.py(), "dltensor_from_py_object_no_sync"));
        }
        // SAFETY: the specification: a call that succeeds fills the description.
        Ok(Some(unsafe { found.assume_init() }))
    }

    /// Returns true if the table can report the stream of its producer's work.
    pub(crate) fn has_work_stream(&self) -> bool {
        self.current_work_stream.is_some()
    }

    /// The stream on which the producer of the type works on a device; `None` if the table cannot report it.
    pub fn work_stream(self, py: Python<'_>, device: Device) -> PyResult<Option<*mut c_void>> {
        let Some(current_work_stream) = self.current_work_stream else { return Ok(None) };
        let (device_type, mut stream) =
            (DLDeviceType(device.device_type().code()), ptr::null_mut());
        // SAFETY: attached; the result is writable.
        match unsafe { current_work_stream(device_type, device.id(), &mut stream) } {
            0 => Ok(Some(stream)),
            _ => Err(failed(py, "current_work_stream")),
        }
    }

    /// Imports an object of the type, for the package. It may have pending work on its device.
    ///
    /// # Safety
    /// The object is of the table's type.
    #[inline]
    pub unsafe fn import_of_type(self, object: &Bound<'_, PyAny>) -> PyResult<Imported> {
        self.import(object)
    }

    /// Imports an object of the type, which may have pending work on its device.
    #[inline]
    pub(crate) fn import(self, object: &Bound<'_, PyAny>) -> PyResult<Imported> {
        let mut managed = ptr::null_mut();
        // SAFETY: attached; an object of the table's type, and a writable result.
        if unsafe { (self.from_py_object)(object.as_ptr().cast(), &mut managed) } != 0 {
            return Err(failed(object.py(), "managed_tensor_from_py_object_no_sync"));
        }
        // SAFETY: the specification: the result is a managed tensor, and we own it. Every version starts with its number;
        // `from_raw` checks the alignment. The program promises that no code writes while a view is alive (see the
        // crate documentation).
        unsafe {
            let version = NonNull::new(managed.cast::<DLPackVersion>()).map(|v| v.read_unaligned());
            let tensor = Tensor::from_raw(managed).map_err(to_py_err)?;
            Ok(Imported::of_managed(tensor, Protocol::ExchangeApi, version))
        }
    }

    /// A Rust tensor as an object of the type, which takes ownership.
    pub(crate) fn give<'py>(self, py: Python<'py>, tensor: Tensor) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the managed tensor is made from a tensor that we give up.
        unsafe { self.object_of(py, tensor.into_raw()) }
    }

    /// A managed tensor as an object of the type. PyTorch and Paddle leak a managed tensor that they refuse.
    ///
    /// # Safety
    /// `managed` is valid, and the caller gives up its ownership.
    pub(crate) unsafe fn object_of<'py>(
        self,
        py: Python<'py>,
        managed: *mut DLManagedTensorVersioned,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut object = ptr::null_mut();
        // SAFETY: attached; the call takes ownership of the managed tensor, and the result is writable.
        let status = unsafe { (self.to_py_object)(managed, &mut object) };
        if status != 0 || object.is_null() {
            return Err(failed(py, "managed_tensor_to_py_object_no_sync"));
        }
        // SAFETY: the function returned a new reference, which is not NULL.
        Ok(unsafe { Bound::from_owned_ptr(py, object.cast()) })
    }
}

/// The exception that a function of a table has set, or a new one if it has set none.
fn failed(py: Python<'_>, function: &str) -> PyErr {
    PyErr::take(py).unwrap_or_else(|| {
        PyBufferError::new_err(format!("the exchange API's {function} failed without a reason"))
    })
}
