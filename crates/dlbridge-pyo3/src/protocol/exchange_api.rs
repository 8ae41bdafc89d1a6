//! The C exchange API of DLPack: a table of functions that a type carries, as a consumer.
//!
//! Source: `DLPackExchangeAPI` in `dlpack.h` 1.3.

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use dlbridge::sys::{
    DLDeviceType, DLManagedTensorVersioned, DLPACK_MAJOR_VERSION, DLPackCurrentWorkStream,
    DLPackExchangeAPI, DLPackExchangeAPIHeader, DLPackManagedTensorFromPyObjectNoSync,
    DLPackManagedTensorToPyObjectNoSync, DLPackVersion,
};
use dlbridge::{Device, Tensor};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyType};

use super::sibling::{self, KeeperOf};
use crate::classes::attribute;
use crate::error::to_py_err;
use crate::gpu::Driver;
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::stream::{self, DataStream, Streams};

/// The name of the capsule that a type carries.
pub(super) const CAPSULE_NAME: &CStr = c"dlpack_exchange_api";

/// The functions of a table that are used here. A table lives as long as the process.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    from_py_object: DLPackManagedTensorFromPyObjectNoSync,
    to_py_object: DLPackManagedTensorToPyObjectNoSync,
    current_work_stream: Option<DLPackCurrentWorkStream>,
    /// Of a type of another copy of dlbridge.
    keeper_of: Option<KeeperOf>,
}

impl Table {
    /// The table of a type; `None` if there is none that can be used.
    pub(crate) fn of_type(object_type: &Bound<'_, PyType>) -> PyResult<Option<Self>> {
        let name = intern!(object_type.py(), "__dlpack_c_exchange_api__");
        let Some(attribute) = object_type.getattr_opt(name)? else { return Ok(None) };
        let Ok(capsule) = attribute.cast_into::<PyCapsule>() else { return Ok(None) };
        if !capsule.is_valid_checked(Some(CAPSULE_NAME)) {
            return Ok(None);
        }
        let newest = capsule.pointer_checked(Some(CAPSULE_NAME))?;
        // SAFETY: the name says that this is a table, and the specification that it stays.
        let Some(table) = (unsafe { Self::of_version(newest.cast()) }) else { return Ok(None) };
        Ok(Some(Self { keeper_of: sibling::function_of(object_type)?, ..table }))
    }

    /// The table of our major version among a table and its older ones.
    ///
    /// # Safety
    /// A valid table that lives as long as the process.
    unsafe fn of_version(newest: NonNull<DLPackExchangeAPIHeader>) -> Option<Self> {
        /// More major versions than there will be; a table may lead back to itself.
        const MOST: u32 = 64;
        let (mut header, mut seen) = (newest, 0);
        // SAFETY: every version of the table begins with a header, whose `prev_api` is NULL or
        // another table.
        while unsafe { header.as_ref() }.version.major > DLPACK_MAJOR_VERSION && seen < MOST {
            seen += 1;
            // SAFETY: as above.
            header = NonNull::new(unsafe { header.as_ref() }.prev_api)?;
        }
        // SAFETY: as above.
        if unsafe { header.as_ref() }.version.major != DLPACK_MAJOR_VERSION {
            return None;
        }
        // SAFETY: a table of our major version has at least the fields of ours; it is a constant.
        let table = unsafe { header.cast::<DLPackExchangeAPI>().as_ref() };
        Some(Self {
            from_py_object: table.managed_tensor_from_py_object_no_sync?,
            to_py_object: table.managed_tensor_to_py_object_no_sync?,
            current_work_stream: table.current_work_stream,
            keeper_of: None,
        })
    }

    /// Imports an object of the type. The table does not synchronise streams: for data on a device the caller's is made
    /// to wait for the one that the table tells. `None` where that cannot be, if the object has `__dlpack__`, which
    /// synchronises.
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

    /// Makes the caller's stream wait for that of the producer; whether that could be done.
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

    /// The tensor of an object of the type; `None` as [`import`](Self::import), for a caller that names no protocol.
    #[inline]
    pub(crate) fn on_host(self, object: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
        let (tensor, _) = self.unsynchronized(object)?;
        match tensor.device().device_type().is_host_accessible() {
            true => Ok(Some(tensor)),
            false => on_device(object, &tensor, None).map(|()| None),
        }
    }

    /// Imports an object of the type with the stream on which its producer works on the data, for who works
    /// on it there; `None` if the table cannot tell the stream. NULL on the CPU.
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

    /// The tensor of an object of the type, on whose device work may be under way, and the version that it says it
    /// is of.
    #[inline]
    fn unsynchronized(
        self,
        object: &Bound<'_, PyAny>,
    ) -> PyResult<(Tensor, Option<DLPackVersion>)> {
        let mut managed = ptr::null_mut();
        // SAFETY: attached; an object of the table's type, and a place to write to.
        if unsafe { (self.from_py_object)(object.as_ptr().cast(), &mut managed) } != 0 {
            return Err(failed(object.py(), "managed_tensor_from_py_object_no_sync"));
        }
        // SAFETY: what the function returned is valid, and ours. That nobody writes while a view is
        // alive is promised by the program (see the crate documentation).
        unsafe {
            let version = managed.cast::<DLPackVersion>().as_ref().copied();
            let tensor = Tensor::from_raw(managed).map_err(to_py_err)?;
            Ok(match self.keeper_of {
                None => (tensor, version),
                Some(keeper_of) => (sibling::rooted(tensor, keeper_of), version),
            })
        }
    }

    /// A tensor of Rust's own as an object of the type, which owns it from here on.
    pub(crate) fn give<'py>(self, py: Python<'py>, tensor: Tensor) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: just made from a tensor, which is given up.
        unsafe { self.object_of(py, tensor.into_raw()) }
    }

    /// A managed tensor as an object of the type. PyTorch and Paddle leak what they do not take.
    ///
    /// # Safety
    /// `managed` is valid, and the caller gives it up.
    pub(super) unsafe fn object_of<'py>(
        self,
        py: Python<'py>,
        managed: *mut DLManagedTensorVersioned,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut object = ptr::null_mut();
        // SAFETY: attached; a managed tensor that is given away, and a place to write to.
        if unsafe { (self.to_py_object)(managed, &mut object) } != 0 {
            return Err(failed(py, "managed_tensor_to_py_object_no_sync"));
        }
        // SAFETY: the function returned a new reference.
        unsafe { Bound::from_owned_ptr_or_err(py, object.cast()) }
    }
}

/// The stream on which the producers of a table work on a device.
fn work_stream(
    py: Python<'_>,
    current_work_stream: DLPackCurrentWorkStream,
    device: Device,
) -> PyResult<*mut c_void> {
    let (device_type, mut stream) = (DLDeviceType(device.device_type().code()), ptr::null_mut());
    // SAFETY: attached; a place to write to.
    match unsafe { current_work_stream(device_type, device.id(), &mut stream) } {
        0 => Ok(stream),
        _ => Err(failed(py, "current_work_stream")),
    }
}

/// Refuses data on a device, unless there is `__dlpack__` to import it by, and no other protocol is requested.
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
        "the data is on {}, and the exchange API does not synchronise the work that is under way \
         there; import it through __dlpack__, which does",
        tensor.device()
    )))
}

/// The exception that a function of a table has set, or one that says that it has set none.
fn failed(py: Python<'_>, function: &str) -> PyErr {
    PyErr::take(py).unwrap_or_else(|| {
        PyBufferError::new_err(format!("the exchange API's {function} failed without a reason"))
    })
}
