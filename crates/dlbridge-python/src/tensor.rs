//! The class `dlbridge.Tensor`, and imports into it. Its methods are in `class/`.
//!
//! The class reports to Python's garbage collector the objects that are freed together with a tensor.
//!
//! - **Sole.** An object is reported only if every handle between it and the tensor is the only one. The collector
//!   treats reported references as those that a cycle would lose, and would clear an object that something else still
//!   holds.
//!
//! An import that never reports an object is not known to the collector, which then does not visit it.
//!
//! The class does not implement `__clear__`: code that reaches a tensor while the collector clears a cycle finds its
//! memory valid. So the collector must break the cycle at another object. It collects a cycle only if every object in
//! it reports its references, and one of them can be cleared, such as an instance of a Python class or a list. A
//! NumPy array of objects reports no references, and a `memoryview` cannot be cleared while its buffer is exported.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use dlbridge::{ArcTensor, Device};
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::{Imported, Protocol, Record};
use dlbridge_pyo3::producer::Producer;
use dlbridge_pyo3::protocol::buffer::Buffer;
use dlbridge_pyo3::python::interpreter::PyOwner;
use dlbridge_pyo3::stream::DataStream;
use dlbridge_pyo3::{PyTensor, numpy};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyTypeInfo, PyVisit, ffi};

use crate::device::{self, Streams, copied, kept_until_passed};
use crate::frameworks;
use crate::import::{self, ImportRequest, satisfy};

/// A tensor over memory that Rust owns or a producer shares.
///
/// It can be exported any number of times, and each result keeps the memory alive. `t.torch()`, `t.jax()` and
/// `t.to(...)` know which tensors a library refuses; a library's own `from_dlpack(t)` accepts what that library
/// supports.
#[pyclass(name = "Tensor", module = "dlbridge", frozen, weakref, mapping)]
pub(crate) struct TensorObject(PyTensor);

/// The class: reading this takes less than PyO3's own check.
static CLASS: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(ptr::null_mut());

impl Deref for TensorObject {
    type Target = PyTensor;

    fn deref(&self) -> &PyTensor {
        &self.0
    }
}

impl From<PyTensor> for TensorObject {
    fn from(tensor: PyTensor) -> Self {
        Self(tensor)
    }
}

// SAFETY: the class is frozen, and its only field is the tensor.
unsafe impl Producer for TensorObject {
    const KEEPS_TENSOR: bool = true;

    #[inline]
    fn with_tensor<R>(
        object: &Bound<'_, Self>,
        f: impl FnOnce(&PyTensor) -> PyResult<R>,
    ) -> PyResult<R> {
        f(object.get())
    }

    fn object(py: Python<'_>, tensor: PyTensor) -> PyResult<Bound<'_, PyAny>> {
        Ok(Self::new(py, tensor)?.into_any())
    }

    fn put_in_order(py: Python<'_>, tensor: &PyTensor) -> PyResult<()> {
        device::put_in_order(py, tensor, Streams::default())
    }
}

impl TensorObject {
    pub(crate) fn new(py: Python<'_>, tensor: impl Into<PyTensor>) -> PyResult<Bound<'_, Self>> {
        Bound::new(py, Self(tensor.into()))
    }

    /// The object, if it is of this class, which cannot be subclassed.
    #[inline]
    pub(crate) fn of<'a, 'py>(object: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, Self>> {
        let is_ours = object.get_type_ptr() == CLASS.load(Ordering::Relaxed);
        // SAFETY: an object of exactly the class, which lives as long as the process.
        is_ours.then(|| unsafe { object.cast_unchecked() })
    }

    /// Lets [`of`](Self::of) find the class, and tells `dlbridge-pyo3` what this package adds, when the module is made.
    pub(crate) fn link(py: Python<'_>) {
        CLASS.store(Self::type_object_raw(py), Ordering::Relaxed);
        dlbridge_pyo3::protocol::numpy::set_class(|object| {
            let tensor = Self::of(object)?.get();
            Some((tensor.tensor(), tensor.is_rusts_own() && tensor.is_read_only()))
        });
        dlbridge_pyo3::frameworks::add_rules(&frameworks::IMPORT_RULES);
    }

    /// Imports any Python object that supports a protocol. A `Tensor` is returned unchanged if it meets the options
    /// and they do not select a protocol.
    pub(crate) fn import<'py>(
        object: &Bound<'py, PyAny>,
        options: &ImportOptions,
    ) -> PyResult<Bound<'py, Self>> {
        Self::import_on(object, options, Streams::default())
    }

    /// As [`import`](Self::import), synchronised with a stream that the caller may name.
    pub(crate) fn import_on<'py>(
        object: &Bound<'py, PyAny>,
        options: &ImportOptions,
        streams: Streams<'_, 'py>,
    ) -> PyResult<Bound<'py, Self>> {
        let py = object.py();
        let Some(ours) = Self::of(object).filter(|_| options.protocol.is_none()) else {
            let imported = ImportRequest { object, options, streams }.run()?;
            return Self::tracked(py, import::on_stream(object, imported, streams)?);
        };
        if let Some(copied) = copied_by_driver(ours.get(), py, options, streams)? {
            return Self::new(py, copied);
        }
        let ours = Self::satisfied(ours, options)?;
        if streams.is_default() {
            return Ok(ours);
        }
        let (device, stream) = (ours.get().tensor().device(), ours.get().stream());
        let chosen = streams.on(device)?;
        if matches!((&chosen, stream), (DataStream::Handle(new), DataStream::Handle(old)) if new == old)
        {
            // It is synchronised already, and kept until that stream has passed.
            return Ok(ours);
        }
        device::order(py, device, stream, &chosen)?;
        let tensor = ours.get().alias()?;
        let tensor = kept_until_passed(tensor, &chosen)?;
        Self::new(py, PyTensor::with_record(tensor, ours.get().record(), chosen))
    }

    /// The shortcut of a `Tensor`, which was selected, requested and validated when it was made: satisfies the options.
    fn satisfied<'py>(
        ours: &Bound<'py, Self>,
        options: &ImportOptions,
    ) -> PyResult<Bound<'py, Self>> {
        let (py, this) = (ours.py(), ours.get());
        let (tensor, record) = (this.tensor(), this.record());
        if options.assume_writable
            && let Some(protocol) = record.protocol
            && protocol != satisfy::assume_writable(protocol, tensor)?
        {
            let record = Record { protocol: Some(Protocol::AssumedWritable), ..record };
            let assumed = PyTensor::with_record(this.second()?, record, *this.stream());
            return Self::satisfied(&Self::new(py, assumed)?, options);
        }
        let read_only = this.is_read_only();
        if let Some((copy, reason)) = satisfy::copy_of(options, tensor, read_only, false)? {
            let copy = if options.writable == Some(false) { copy.into_read_only() } else { copy };
            let record = Record { reason: Some(reason), ..record };
            return Self::new(py, PyTensor::with_record(copy, record, DataStream::Default));
        }
        if options.writable == Some(false) && !tensor.is_read_only() {
            return Self::new(py, this.with_same_record(tensor.share()));
        }
        Ok(ours.clone())
    }

    /// The object of an import. The garbage collector visits it only if it may report another one.
    fn tracked(py: Python<'_>, tensor: PyTensor) -> PyResult<Bound<'_, Self>> {
        let reports = may_report(tensor.tensor());
        let object = Self::new(py, tensor)?;
        if !reports {
            // SAFETY: the object is alive, and its class reports to the collector, so it has the collector's header.
            unsafe { ffi::PyObject_GC_UnTrack(object.as_ptr().cast()) };
        }
        Ok(object)
    }
}

/// The copy on another device, or on its own, that only the driver can make; `None` if none is requested.
fn copied_by_driver(
    this: &PyTensor,
    py: Python<'_>,
    options: &ImportOptions,
    streams: Streams<'_, '_>,
) -> PyResult<Option<PyTensor>> {
    let found = this.tensor().device();
    let Some((to, reason)) = satisfy::driver_copy(options, found, false) else { return Ok(None) };
    let stream = match to == Device::CPU {
        true if streams.is_default() => *this.stream(),
        true => streams.on(found)?,
        false => streams.on(to)?,
    };
    let tensor = copied(py, this.tensor(), this.stream(), to, &stream)?;
    let Record { protocol, version, .. } = this.record();
    let imported = Imported::new(tensor, protocol.unwrap_or(Protocol::ExchangeApi));
    let imported =
        satisfy::settle(options, Imported { reason: Some(reason), version, ..imported })?;
    let stream = if to == Device::CPU { DataStream::Default } else { stream };
    let Imported { tensor, reason, version, .. } = imported;
    Ok(Some(PyTensor::with_record(tensor, Record { protocol, reason, version }, stream)))
}

/// Reports the object that keeps the memory of a tensor, if that object is freed with it (Sole).
///
/// Handles are cloned by attached threads, and the collector runs attached too: a count of one stays one during the
/// traversal.
pub(crate) fn traverse(mut tensor: &ArcTensor, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
    while tensor.is_sole() {
        tensor = match owners(tensor) {
            (Some(object), ..) => return object.traverse(visit),
            (_, Some(buffer), _) => return visit_owned(exporter_shown(buffer), visit),
            (.., Some(source)) => source,
            _ => return visit_owned(numpy::array::managed_array(tensor), visit),
        };
    }
    Ok(())
}

/// The exporter of a buffer, except a `memoryview`, which prints an exception if the collector clears it while its buffer is
/// exported, and `bytes`: they are in no cycle, and a program must not reach those that only this buffer refers to.
fn exporter_shown(buffer: &Buffer) -> Option<NonNull<ffi::PyObject>> {
    // SAFETY: the collector runs attached; the exporter is a live object.
    let is_shown = |exporter: &NonNull<ffi::PyObject>| unsafe {
        let exporter = exporter.as_ptr();
        ffi::PyMemoryView_Check(exporter) == 0 && ffi::PyBytes_CheckExact(exporter) == 0
    };
    NonNull::new(buffer.fields().obj).filter(is_shown)
}

/// Reports an object to which a C struct, the owner of a tensor, has a reference.
fn visit_owned(
    object: Option<NonNull<ffi::PyObject>>,
    visit: &PyVisit<'_>,
) -> Result<(), PyTraverseError> {
    // SAFETY: the collector runs attached. The reference belongs to the struct; this code neither counts nor releases
    // it.
    let object = object.map(|object| unsafe {
        let py = Python::assume_attached();
        ManuallyDrop::new(Bound::from_owned_ptr(py, object.as_ptr()).unbind())
    });
    visit.call(object.as_deref())
}

/// Returns true if [`traverse`] reports an object, now or when the tensor has fewer handles.
fn may_report(tensor: &ArcTensor) -> bool {
    !matches!(owners(tensor), (None, None, None)) || numpy::array::managed_array(tensor).is_some()
}

/// The owner of a tensor, if it is one of these types.
#[inline]
fn owners(tensor: &ArcTensor) -> (Option<&PyOwner>, Option<&Buffer>, Option<&ArcTensor>) {
    // SAFETY: no element is accessed through the owner.
    unsafe { (tensor.owner_ref(), tensor.owner_ref(), tensor.owner_ref()) }
}
