//! The import of an extension: NumPy's arrays, DLPack and buffers as they are. The package imports everything else
//! ([`hub`]): other protocols and options, devices, and what a producer refuses or a tensor cannot share.
//!
//! A typed argument compares the result with its type (`argument/`). Code that works on a device also gets the stream that
//! the data is synchronised with ([`on_device`]). The dtype of a NumPy array has the unit of points and spans of time
//! ([`import_times`]).

pub mod hub;

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use dlbridge::{Access, DataType, Datetime64, Device, Element, Seconds, Tensor};
use pyo3::exceptions::{
    PyBufferError, PyException, PyMemoryError, PyRecursionError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::borrow::Borrowed;
use crate::capsule;
use crate::import_options::{ImportOptions, Order};
use crate::imported::{Imported, Protocol};
use crate::numpy;
use crate::protocol::dlpack::{claimed_device, disagreement};
use crate::protocol::time::{self, Elements, Times};
use crate::protocol::torch_view::{storage, with_storage};
use crate::protocol::{self, TypeInfo, buffer, dlpack, torch_view, type_info};
use crate::python::error::type_name;
use crate::python::objects::attribute;
use crate::stream::{DataStream, Kind, StreamOf, kind};
use crate::tensor::PyTensor;

/// Imports any Python object that supports a protocol, without a copy whenever a tensor can express the data; a
/// DLPack producer may still copy. Data of a legacy producer is read-only, because that producer cannot say whether
/// it may be written.
///
/// The import borrows the memory for reading until the tensor, and everything made from it without a copy, is
/// dropped. To keep an object without a borrow, use [`PyTensor::import`](crate::PyTensor::import).
///
/// # Errors
/// `ModuleNotFoundError` for an object that only the package `dlbridge` imports, if that is not installed; `TypeError` for an
/// object without a protocol; `BufferError` if the memory is borrowed for writing, for data that
/// breaks the specification, and for data that a tensor cannot express; `ValueError` for a capsule that was consumed
/// before or holds something else; and any exception of the producer.
///
/// ```no_run
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn ndim(x: &Bound<'_, PyAny>) -> PyResult<usize> {
///     Ok(dlbridge_pyo3::import(x)?.ndim())
/// }
/// ```
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let type_info = type_info::of(object)?;
    let imported = required(object, &type_info, &ImportOptions::default())?;
    let read_only = imported.is_read_only();
    if imported.tensor.access() == Access::Exclusive {
        return Ok(imported.tensor);
    }
    if !imported.tensor.device().device_type().is_host_accessible() {
        // A tensor on a device never becomes a view, so it needs no borrow.
        return Ok(if read_only { imported.tensor.into_read_only() } else { imported.tensor });
    }
    Borrowed::imported(&type_info.borrowed, object, imported.tensor, read_only)
}

impl PyTensor {
    /// Imports any Python object that supports a protocol.
    ///
    /// # Errors
    /// As [`import`](crate::import); `BufferError` if the data cannot meet the options.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::{PyTensor, ImportOptions};
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn keep(x: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
    ///     PyTensor::import(x, &ImportOptions::default())
    /// }
    /// ```
    #[inline]
    pub fn import(object: &Bound<'_, PyAny>, options: &ImportOptions) -> PyResult<Self> {
        required(object, &*type_info::of(object)?, options).map(Self::from)
    }
}

/// Imports an object of a known type. Data on a device is synchronised with the default stream.
pub(crate) fn required(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Imported> {
    if !options.is_plain() {
        return hub::import(object, options, None, None);
    }
    let Some(imported) = import_as_it_is(object, type_info, options)? else {
        let imported = hub::import(object, options, None, None);
        return imported.map_err(|error| match hub::is_missing(&error) {
            true => PyTypeError::new_err(format!(
                "'{}' object supports no exchange protocol; pass an array or tensor of its elements",
                type_name(object)
            )),
            false => error,
        });
    };
    let is_here = imported.tensor.device().device_type().is_host_accessible();
    match is_here || object.is_instance_of::<PyCapsule>() {
        true => Ok(imported),
        false => hub::import(object, options, None, None),
    }
}

/// Imports an object; `None` for one without a protocol. The options name at most a device and DLPack. Without a device,
/// the tensor may be on any, with pending work.
pub(crate) fn import_as_it_is(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    let of_package = || hub::import(object, options, None, None).map(Some);
    let fits = |imported: &Imported| options.device.is_none_or(|to| to == imported.tensor.device());
    if options.protocol.is_none() {
        let imported = in_place(object, type_info)?.filter(fits);
        if imported.is_some() {
            return Ok(imported);
        }
        if type_info.head.is_some() {
            return of_package().map_err(|error| hub::not_shared(object.py(), error));
        }
    }
    let _depth = Depth::enter()?;
    if let Ok(capsule) = object.cast::<PyCapsule>()
        && options.device.is_none()
    {
        return capsule::take(capsule).map(Some);
    }
    let checks = Checks::before(object, type_info)?;
    for &protocol in type_info.checks.order {
        if options.protocol.is_some_and(|only| only != protocol) {
            continue;
        }
        let received = match protocol {
            Protocol::ExchangeApi => type_info.table.map(|table| table.import(object)).transpose(),
            Protocol::Dlpack => dlpack::import(object),
            Protocol::Buffer => buffer::import(object),
            _ if type_info.checks.is_column() || has(object, protocol)? => {
                return hub::import(object, options, Some(protocol), None).map(Some);
            }
            _ => Ok(None),
        };
        return match received {
            Ok(Some(imported)) if fits(&imported) => checks.after(imported).map(Some),
            Ok(Some(_)) => of_package(),
            Ok(None) => continue,
            Err(refusal) => instead(object, options, refusal).map(Some),
        };
    }
    Ok(None)
}

/// Imports an object whose memory is known without a request: an array of NumPy, or of JAX; `None` for all others.
#[inline]
pub fn in_place(object: &Bound<'_, PyAny>, type_info: &TypeInfo) -> PyResult<Option<Imported>> {
    match (type_info.head, &type_info.same_buffer) {
        (Some(head), _) => protocol::numpy::import(head, object),
        (None, Some(same_buffer)) if same_buffer.is_known() => {
            type_info.check_before(object)?;
            let imported = same_buffer.import(object)?;
            if let Some(imported) = &imported {
                type_info.checks.check(object, imported.tensor.dtype())?;
            }
            Ok(imported)
        }
        _ => Ok(None),
    }
}

/// Imports an object by the package, which may know another protocol, or a better explanation than the producer's refusal.
#[cold]
fn instead(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
    refusal: PyErr,
) -> PyResult<Imported> {
    let py = object.py();
    let is_final = !refusal.is_instance_of::<PyException>(py)
        || refusal.is_instance_of::<PyRecursionError>(py)
        || refusal.is_instance_of::<PyMemoryError>(py)
        || hub::is_missing(&refusal)
        || DEPTH.get() >= Depth::UNUSUAL;
    if is_final {
        return Err(refusal);
    }
    hub::import(object, options, None, None).inspect_err(|error| {
        if hub::is_missing(error) {
            error.set_cause(py, Some(refusal));
        }
    })
}

/// The checks of an import around the request of the tensor, which the protocols leave out.
pub struct Checks<'a, 'py> {
    object: &'a Bound<'py, PyAny>,
    type_info: &'a TypeInfo,
    storage: Option<Bound<'py, PyAny>>,
}

impl<'a, 'py> Checks<'a, 'py> {
    /// Refuses states that must be checked before a request.
    #[inline]
    pub fn before(object: &'a Bound<'py, PyAny>, type_info: &'a TypeInfo) -> PyResult<Self> {
        type_info.check_before(object)?;
        // Before the request, because other code may give the producer other memory meanwhile; `after` compares.
        Ok(Self { object, type_info, storage: storage(object, type_info)? })
    }

    /// Refuses states that the bytes of the tensor do not show, and keeps the memory of storages. The first import of a
    /// type shows how later ones can be faster.
    #[inline]
    pub fn after(self, imported: Imported) -> PyResult<Imported> {
        let Self { object, type_info, storage } = self;
        type_info.checks.check(object, imported.tensor.dtype())?;
        let tensor = with_storage(object, type_info, storage, imported.tensor)?;
        let imported = Imported { tensor, ..imported };
        if imported.protocol == Protocol::ExchangeApi {
            torch_view::measure(object, type_info, &imported.tensor)?;
        }
        if let Some(same_buffer) = &type_info.same_buffer {
            same_buffer.learn(object, &imported)?;
        }
        Ok(imported)
    }
}

/// Returns true if an object has the methods of a protocol; does not call them.
pub fn has(object: &Bound<'_, PyAny>, protocol: Protocol) -> PyResult<bool> {
    let py = object.py();
    let has = |name| attribute(object, name).map(|found| found.is_some());
    match protocol {
        Protocol::ExchangeApi => Ok(type_info::of(object)?.table.is_some()),
        Protocol::Dlpack | Protocol::LegacyDlpack | Protocol::AssumedWritable => {
            has(intern!(py, "__dlpack__"))
        }
        Protocol::CudaArrayInterface => has(intern!(py, "__cuda_array_interface__")),
        Protocol::ArrayInterface => has(intern!(py, "__array_interface__")),
        Protocol::ArrayStruct => has(intern!(py, "__array_struct__")),
        Protocol::Buffer => Ok(buffer::is_supported(object)),
        Protocol::Arrow => Ok(has(intern!(py, "__arrow_c_array__"))?
            || has(intern!(py, "__arrow_c_device_array__"))?
            || has(intern!(py, "__arrow_c_stream__"))?),
    }
}

/// Imports a table of Arrow as a matrix, whose copy has an order; `None` for all other objects.
pub(crate) fn table(object: &Bound<'_, PyAny>, order: Order) -> PyResult<Option<Imported>> {
    match has(object, Protocol::Dlpack)? || !has(object, Protocol::Arrow)? {
        true => Ok(None),
        false => hub::matrix(object, order),
    }
}

/// Returns true if an object has any protocol.
pub fn has_protocol(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    for &protocol in type_info::of(object)?.checks.order {
        if has(object, protocol)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Stops a producer that imports itself again and again. Python's own limit counts calls, and the calls of an import
/// use more stack than it expects.
pub struct Depth;

thread_local! {
    static DEPTH: Cell<u8> = const { Cell::new(0) };
}

impl Depth {
    /// Real wrappers of wrappers are a few levels deep.
    const MAX: u8 = 24;

    /// So deep, a second request for the same object at each level would take too long.
    const UNUSUAL: u8 = 7;

    pub fn enter() -> PyResult<Self> {
        DEPTH.with(|depth| match depth.get() {
            Self::MAX => Err(PyRecursionError::new_err(
                "imports are nested too deeply; a producer's \
                 __dlpack__ must not import the producer itself",
            )),
            count => {
                depth.set(count + 1);
                Ok(Self)
            }
        })
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Imports an object with the handle of a stream; work on that stream runs after the producer's pending writes. It is
/// the stream that the caller chooses. Without a choice, it is the producer's if its exchange API reports one, or
/// else the device's default stream. `None` for an object without a protocol.
pub(crate) fn on_device(
    object: &Bound<'_, PyAny>,
    choice: Option<StreamOf>,
) -> PyResult<Option<(Imported, *mut c_void)>> {
    let _depth = Depth::enter()?;
    let type_info = type_info::of(object)?;
    if choice.is_none()
        && let Some(answer) = on_work_stream(object, &type_info)?
    {
        return Ok(Some(answer));
    }
    let stream = |device| choice.map_or(Ok(ptr::null_mut()), |stream_of| stream_of(device));
    if type_info.head.is_none() {
        let claimed = claimed_device(object).map_err(|refusal| explained(object, refusal))?;
        if let Some(device) = claimed.filter(|&device| is_on_device(device)) {
            return synchronised(object, device, stream(device)?).map(Some);
        }
    }
    let options = ImportOptions::default();
    let Some(imported) = import_as_it_is(object, &type_info, &options)? else { return Ok(None) };
    let device = imported.tensor.device();
    if !is_on_device(device) {
        return Ok(Some((imported, ptr::null_mut())));
    }
    if object.is_instance_of::<PyCapsule>() {
        return Err(PyBufferError::new_err(format!(
            "the data is on {device}, and a capsule cannot synchronise with a stream; pass \
             the object that makes it"
        )));
    }
    let stream = stream(device)?;
    // By the standard, a producer that is not asked synchronises with the default stream.
    match imported.protocol != Protocol::ExchangeApi && stream.is_null() {
        true => Ok(Some((imported, stream))),
        false => synchronised(object, device, stream).map(Some),
    }
}

fn is_on_device(device: Device) -> bool {
    !device.device_type().is_host_accessible()
}

/// Imports data on a device by the package, which synchronises it, and keeps it until the stream has finished its work.
fn synchronised(
    object: &Bound<'_, PyAny>,
    device: Device,
    stream: *mut c_void,
) -> PyResult<(Imported, *mut c_void)> {
    let number = number(object.py(), device, stream)?;
    let imported = hub::import(object, &ImportOptions::default(), None, number.as_ref())?;
    // The stream belongs to the device that the producer reported.
    match imported.tensor.device() {
        found if found == device => Ok((imported, stream)),
        found => Err(disagreement(device, found)),
    }
}

/// The package's refusal of an object, if it gives one, or else the producer's.
#[cold]
fn explained(object: &Bound<'_, PyAny>, refusal: PyErr) -> PyErr {
    let own = refusal.clone_ref(object.py());
    instead(object, &ImportOptions::default(), refusal).err().unwrap_or(own)
}

/// The number of a stream in DLPack; `None` for the default stream of the device.
fn number<'py>(
    py: Python<'py>,
    device: Device,
    stream: *mut c_void,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let handle = stream.addr();
    let wrong = |why: &str| {
        let refusal = format!("the stream for data on {device} is {handle:#x}, {why}");
        Err(PyValueError::new_err(refusal))
    };
    match (kind(device), i64::try_from(handle)) {
        // In DLPack, -1 requests no synchronisation.
        (Some(_), Err(_)) => wrong("which is not a handle"),
        (Some(Kind::Rocm), Ok(1 | 2)) => {
            wrong("which is not a stream of ROCm; its default one is NULL")
        }
        (_, Ok(0)) => Ok(None),
        (Some(_), Ok(_)) => DataStream::of_handle(device, stream).to_object(py, device).map(Some),
        (None, _) => Err(PyBufferError::new_err(format!(
            "a stream is named for data on {device}, and DLPack does not number its streams, so the \
             producer cannot synchronise with it"
        ))),
    }
}

/// Imports an object of a type with a table, without synchronising; `None` for other objects.
fn on_work_stream(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
) -> PyResult<Option<(Imported, *mut c_void)>> {
    let Some(table) = type_info.table.filter(|table| table.has_work_stream()) else {
        return Ok(None);
    };
    let checks = Checks::before(object, type_info)?;
    let imported = table.import(object).map_err(|refusal| explained(object, refusal))?;
    let device = imported.tensor.device();
    let stream = match is_on_device(device) {
        true => table.work_stream(object.py(), device)?,
        false => Some(ptr::null_mut()),
    };
    let Some(stream) = stream else { return Ok(None) };
    Ok(Some((checks.after(imported)?, stream)))
}

/// Imports times, with the object that keeps their memory; `None` for an object with other elements.
pub(crate) fn import_times<'py>(
    object: &Bound<'py, PyAny>,
    times: &Times,
) -> PyResult<Option<(Imported, Bound<'py, PyAny>)>> {
    let type_info = type_info::of(object)?;
    type_info.check_before(object)?;
    if type_info.borrowed.numpy_array {
        return import_array_of_times(object.clone(), times);
    }
    if type_info.checks.is_column() || has(object, Protocol::Arrow)? {
        return Ok(hub::times(object, times)?.map(|imported| (imported, object.clone())));
    }
    times.set_no_column(object);
    Ok(None)
}

/// Imports the times of a NumPy array.
pub fn import_array_of_times<'py>(
    array: Bound<'py, PyAny>,
    times: &Times,
) -> PyResult<Option<(Imported, Bound<'py, PyAny>)>> {
    let py = array.py();
    let array = plain(array)?;
    let dtype = array.getattr(intern!(py, "dtype"))?;
    let found: String = dtype.getattr(intern!(py, "name"))?.extract()?;
    let native = dtype.getattr(intern!(py, "isnative"))?.is_truthy()?;
    let found = Elements::Named(&found);
    if !native || !times.choose(found) {
        let order = if native { "" } else { " in the other byte order" };
        times.set_found(times.with_remedy(&found, order));
        return Ok(None);
    }
    let counts = array.call_method1(intern!(py, "view"), (intern!(py, "int64"),))?;
    let type_info = type_info::of(&counts)?;
    let imported = required(&counts, &type_info, &ImportOptions::default())?;
    Ok(Some((as_times(imported)?, counts)))
}

/// The array as one of exactly NumPy's class: a subclass may override `dtype` and `view`.
fn plain(array: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let py = array.py();
    if type_info::of(&array)?.head.is_some() {
        return Ok(array);
    }
    match numpy::api::class(py)? {
        Some(class) => class.call_method1(intern!(py, "view"), (&array, &class)),
        None => Ok(array),
    }
}

/// 64-bit integers as counts of a unit of time.
pub fn as_times(imported: Imported) -> PyResult<Imported> {
    let dtype = imported.tensor.dtype();
    if dtype != DataType::INT64 {
        let refusal = format!("times must be counted by int64, not by {dtype}");
        return Err(PyBufferError::new_err(refusal));
    }
    let tensor = time::relabelled(imported.tensor, Datetime64::<Seconds>::DATA_TYPE)?;
    Ok(Imported { tensor, ..imported })
}
