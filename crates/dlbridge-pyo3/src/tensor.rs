//! The Python class: its fields, and its use in the rest of the crate. Its Python methods are in `class/`.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::{mem, ptr};

use dlbridge::sys::{DLManagedTensor, DLManagedTensorVersioned};
use dlbridge::{Access, ArcTensor, Tensor};
use pyo3::prelude::*;
use pyo3::{PyTypeInfo, ffi};

use crate::borrow::{Borrowed, Guard};
use crate::error::to_py_err;
use crate::imported::{Imported, Protocol};
use crate::record::{Common, Record};
use crate::stream::{self, DataStream};

/// A tensor over memory that Rust owns or a producer shares.
///
/// It can be exported any number of times, and each result keeps the memory alive. `t.torch()`, `t.jax()` and
/// `t.to(...)` know which tensors a library refuses; a library's own `from_dlpack(t)` accepts what that library
/// supports.
#[cfg_attr(doc, doc = include_str!("tensor.md"))]
#[pyclass(name = "Tensor", module = "dlbridge", frozen, weakref, mapping)]
pub struct PyTensor {
    pub(crate) tensor: ArcTensor,
    record: Record,
}

/// A tensor, or anything that converts to a [`Tensor`]: vectors, boxes, nested arrays, ndarray arrays, images, ...
///
/// ```
/// # fn make() -> dlbridge_pyo3::PyTensor {
/// dlbridge_pyo3::PyTensor::from([[1.0_f32, 2.0], [3.0, 4.0]])
/// # }
/// ```
impl<T> From<T> for PyTensor
where
    Tensor: From<T>,
{
    #[inline]
    fn from(owner: T) -> Self {
        Self::with_record(Tensor::from(owner), Common::default(), DataStream::Default)
    }
}

/// The class, once an object was compared with it.
static CLASS: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(ptr::null_mut());

/// The function that returns the class; set when the first tensor is made, so that an extension which makes none does not
/// link the class.
static FIND_CLASS: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

type FindClass = fn(Python<'_>) -> *mut ffi::PyTypeObject;

#[cold]
fn find_class(py: Python<'_>) -> Option<*mut ffi::PyTypeObject> {
    let find = FIND_CLASS.load(Ordering::Relaxed);
    if find.is_null() {
        return None;
    }
    // SAFETY: only `note_class` sets it, to a function of this type.
    let class = unsafe { mem::transmute::<*mut (), FindClass>(find) }(py);
    CLASS.store(class, Ordering::Relaxed);
    Some(class)
}

impl From<Imported> for PyTensor {
    fn from(imported: Imported) -> Self {
        Self::imported_on(imported, DataStream::Default)
    }
}

impl PyTensor {
    /// The object as one of this extension's own class, which cannot be subclassed.
    #[inline]
    pub(crate) fn of<'a, 'py>(object: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, Self>> {
        let class = match CLASS.load(Ordering::Relaxed) {
            class if class.is_null() => find_class(object.py())?,
            class => class,
        };
        // SAFETY: an object of exactly the class, which lives as long as the process.
        (object.get_type_ptr() == class).then(|| unsafe { object.cast_unchecked() })
    }

    #[inline]
    pub(crate) fn with_record(tensor: Tensor, common: Common, stream: DataStream) -> Self {
        Self::note_class();
        let record = Record::new(&tensor, common, stream);
        Self { tensor: tensor.into_shared(), record }
    }

    /// A tensor whose first export may be written, and every later one only read: for memory that a class of an
    /// extension keeps and gives to consumers that do not know each other.
    ///
    /// The object itself is read-only, and so are its slices and buffers. The first consumer that takes it by DLPack,
    /// also through `t.numpy()`, `t.torch()` and `t.to(...)`, gets the memory writable and without a copy. A tensor that
    /// others hold too, such as one of `Bytes` with several handles, is only read. A capsule that is dropped unused, and
    /// `dlbridge.explain`, count as the first consumer, and so does a call of `t.to(...)` that copies or fails. A legacy capsule, which cannot be marked, gets a copy.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyTensor;
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn decode() -> PyTensor {
    ///     PyTensor::writable_once(vec![1.0_f32, 2.0])
    /// }
    /// ```
    pub fn writable_once<T>(owner: T) -> Self
    where
        Tensor: From<T>,
    {
        let tensor = Tensor::from(owner);
        if tensor.access() != Access::Exclusive {
            return Self::from(tensor.into_read_only());
        }
        Self::note_class();
        let writable = tensor.into_shared();
        let tensor = writable.share().into_shared();
        Self { tensor, record: Record::writable_once(writable) }
    }

    #[inline]
    fn note_class() {
        let find: FindClass = Self::type_object_raw;
        FIND_CLASS.store(find as *mut (), Ordering::Relaxed);
    }

    /// Takes the only writable export, as a tensor of its own.
    pub(crate) fn take_writable(&self) -> Option<Self> {
        let tensor = self.record.take_writable()?;
        Some(Self { record: Record::new(&tensor, Common::default(), DataStream::Default), tensor })
    }

    /// Returns true if the next export may not be written.
    pub(crate) fn exports_read_only(&self) -> bool {
        self.is_read_only() && !self.record.has_writable()
    }

    /// An import that is synchronised with a stream.
    pub(crate) fn imported_on(imported: Imported, stream: DataStream) -> Self {
        let Imported { tensor, protocol, reason, version } = imported;
        Self::with_record(tensor, Common { protocol: Some(protocol), reason, version }, stream)
    }

    /// The import record.
    #[inline]
    pub(crate) fn record(&self) -> Common {
        self.record.common()
    }

    /// The protocol of the import; `None` for a tensor that Rust made.
    #[inline]
    pub(crate) fn imported_by(&self) -> Option<Protocol> {
        self.record().protocol
    }

    /// The stream that the data is synchronised with.
    pub(crate) fn stream(&self) -> &DataStream {
        self.record.stream()
    }

    /// Makes the device's default stream wait, for a consumer that knows no other stream.
    pub(crate) fn in_default_order(&self, py: Python<'_>) -> PyResult<()> {
        let device = self.tensor.device();
        match stream::has_streams(device) {
            true => stream::order(py, device, self.stream(), &DataStream::Default),
            false => Ok(()),
        }
    }

    /// The tensor. Code that returns a view of it must borrow its memory.
    pub(crate) fn tensor(&self) -> &ArcTensor {
        &self.tensor
    }

    /// Returns true if the data is read-only, or if its producer could not mark it.
    pub(crate) fn is_read_only(&self) -> bool {
        let Common { protocol, reason, .. } = self.record();
        let told = reason.is_some() || protocol.is_none_or(Protocol::tells_read_only);
        !told || self.tensor.is_read_only()
    }

    /// Returns true if Rust made the tensor instead of importing it.
    pub(crate) fn is_rusts_own(&self) -> bool {
        self.imported_by().is_none()
    }

    /// Takes the tensor out, unless it is exported or Rust did not make it; then it returns `self`.
    pub(crate) fn into_tensor(self) -> Result<Tensor, Self> {
        let is_borrowed = self.record.reading().is_some_and(|reading| reading.get().is_some());
        if !self.is_rusts_own() || is_borrowed {
            return Err(self);
        }
        let Self { tensor, record } = self;
        tensor.try_into_tensor().map_err(|tensor| Self { tensor, record })
    }

    /// Another tensor with the same import record.
    pub(crate) fn with_tensor(&self, tensor: Tensor) -> Self {
        Self::with_record(tensor, self.record(), *self.stream())
    }

    /// A second handle on the same memory, which claims no exclusivity.
    pub(crate) fn alias(&self) -> PyResult<Tensor> {
        match self.is_read_only() {
            true => Ok(self.tensor.share()),
            false => self.second(),
        }
    }

    /// As [`alias`](Self::alias), with the flags of the tensor itself, for a tensor with the same import record.
    pub(crate) fn second(&self) -> PyResult<Tensor> {
        // SAFETY: `to_raw` just made the managed tensor, and this is its only use. If Python code writes while a view
        // is alive, the program has a race (see the crate documentation).
        unsafe { Tensor::from_raw(self.tensor.to_raw()) }.map_err(to_py_err)
    }

    /// Borrows read-only memory that Rust made, for reading, as long as this object lives: some consumers ignore the
    /// read-only flag. A borrow for writing is then refused.
    pub(crate) fn keep_reading(&self) -> PyResult<()> {
        // Only the record of read-only data that Rust made has this place.
        if let Some(reading) = self.record.reading()
            && self.is_rusts_own()
            && self.is_read_only()
            && reading.get().is_none()
        {
            // If another thread was faster, this borrow is released.
            let _ = reading.set(Guard::reading(&self.tensor, "read-only dlbridge.Tensor")?);
        }
        Ok(())
    }

    /// The tensor for a consumer that does not keep this object. Read-only memory that Rust made is borrowed for reading
    /// as long as the consumer has it.
    pub(crate) fn for_consumer(&self) -> PyResult<ArcTensor> {
        match self.is_rusts_own() && self.is_read_only() {
            true => Ok(Borrowed::read_only(&self.tensor)?.into_shared()),
            false => Ok(self.tensor.clone()),
        }
    }

    /// A managed tensor over the same memory for a consumer.
    #[inline]
    pub(crate) fn to_raw(&self) -> PyResult<*mut DLManagedTensorVersioned> {
        match self.record.is_of_plain_rust() {
            true => Ok(self.tensor.to_raw()),
            false => self.to_raw_of_import(),
        }
    }

    fn to_raw_of_import(&self) -> PyResult<*mut DLManagedTensorVersioned> {
        if let Some(writable) = self.record.take_writable() {
            return Ok(writable.to_raw());
        }
        Ok(match (self.is_read_only(), self.imported_by()) {
            (false, _) => self.tensor.to_raw(),
            (true, None) => Borrowed::read_only(&self.tensor)?.into_raw(),
            (true, Some(_)) => self.tensor.share().into_raw(),
        })
    }

    /// A legacy managed tensor over the same memory, for data that it can express.
    pub(crate) fn to_raw_legacy(&self) -> PyResult<*mut DLManagedTensor> {
        self.tensor.to_raw_legacy().map_err(to_py_err)
    }
}
