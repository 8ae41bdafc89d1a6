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

use crate::classes::{attr_if_any, attribute};
use crate::error::to_py_err;
use crate::gpu::Driver;
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::stream::{self, DataStream, Streams};

/// The name of the capsule in the type's attribute.
pub(super) const CAPSULE_NAME: &CStr = c"dlpack_exchange_api";

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

    /// Imports an object of the type. The table does not synchronise streams: for data on a device, the caller's
    /// stream waits for the stream that the table reports. `None` if that is not possible and the object has
    /// `__dlpack__`, which synchronises.
    pub(crate) fn import<'py>(
        self,
        object: &Bound<'py, PyAny>,
        options: &ImportOptions,
        streams: &Streams<'_, 'py>,
    ) -> PyResult<Option<Imported>> {
        let (tensor, version) = self.unsynchronized(object)?;
        let device = tensor.device();
        if !device.device_type().is_host_accessible()
            && !self.put_in_order(device, &streams.on_source(device, options)?, object)?
        {
            return on_device(object, &tensor, options.protocol).map(|()| None);
        }
        Ok(Some(Imported { version, ..Imported::new(tensor, Protocol::ExchangeApi) }))
    }

    /// Makes the caller's stream wait for the producer's. Returns false if that is not possible.
    #[cold]
    fn put_in_order<'py>(
        self,
        device: Device,
        ours: &DataStream,
        object: &Bound<'py, PyAny>,
    ) -> PyResult<bool> {
        let py = object.py();
        let Some(function) = self.current_work_stream.filter(|_| stream::has_streams(device))
        else {
            return Ok(false);
        };
        let theirs = DataStream::of_handle(device, work_stream(py, function, device)?);
        let is_same = ours.handle() == theirs.handle();
        if !is_same && Driver::of(device.device_type()).is_err() {
            return Ok(false);
        }
        stream::order(py, device, &theirs, ours)?;
        Ok(true)
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

    /// Imports an object of the type with the stream on which its producer works on the data, for a caller that works
    /// on that stream; `None` if the table cannot report the stream. NULL on the CPU.
    pub(crate) fn import_on_work_stream(
        self,
        object: &Bound<'_, PyAny>,
    ) -> PyResult<Option<(Imported, *mut c_void)>> {
        let Some(current_work_stream) = self.current_work_stream else { return Ok(None) };
        let (tensor, version) = self.unsynchronized(object)?;
        let device = tensor.device();
        let stream = match device.device_type().is_host_accessible() {
            true => ptr::null_mut(),
            false => work_stream(object.py(), current_work_stream, device)?,
        };
        let imported = Imported { version, ..Imported::new(tensor, Protocol::ExchangeApi) };
        Ok(Some((imported, stream)))
    }

    /// Imports an object of the type, which may have pending work on its device.
    #[inline]
    pub(crate) fn import_unsynchronized(self, object: &Bound<'_, PyAny>) -> PyResult<Imported> {
        let (tensor, version) = self.unsynchronized(object)?;
        Ok(Imported { version, ..Imported::new(tensor, Protocol::ExchangeApi) })
    }

    /// The tensor of an object of the type, which may have pending work on its device, and the version in its managed
    /// tensor.
    #[inline]
    fn unsynchronized(
        self,
        object: &Bound<'_, PyAny>,
    ) -> PyResult<(Tensor, Option<DLPackVersion>)> {
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
            Ok((tensor, version))
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
    pub unsafe fn object_of<'py>(
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

/// The stream on which the producers of a table work on a device.
fn work_stream(
    py: Python<'_>,
    current_work_stream: DLPackCurrentWorkStream,
    device: Device,
) -> PyResult<*mut c_void> {
    let (device_type, mut stream) = (DLDeviceType(device.device_type().code()), ptr::null_mut());
    // SAFETY: attached; the result is writable.
    match unsafe { current_work_stream(device_type, device.id(), &mut stream) } {
        0 => Ok(stream),
        _ => Err(failed(py, "current_work_stream")),
    }
}

/// Refuses data on a device, unless the object has `__dlpack__` to import it by and no protocol is requested.
#[cold]
fn on_device(
    object: &Bound<'_, PyAny>,
    tensor: &Tensor,
    asked_for: Option<Protocol>,
) -> PyResult<()> {
    let dlpack = attribute(object, intern!(object.py(), "__dlpack__"))?;
    if asked_for.is_none() && dlpack.is_some() {
        return Ok(());
    }
    Err(PyBufferError::new_err(format!(
        "the data is on {}, and the exchange API does not synchronise the pending work \
         there; import it through __dlpack__, which does",
        tensor.device()
    )))
}

/// The exception that a function of a table has set, or a new one if it has set none.
fn failed(py: Python<'_>, function: &str) -> PyErr {
    PyErr::take(py).unwrap_or_else(|| {
        PyBufferError::new_err(format!("the exchange API's {function} failed without a reason"))
    })
}
