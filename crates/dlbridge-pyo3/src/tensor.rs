//! A tensor for Python: its fields, and its use in the rest of the crate. `object.rs` makes objects of it.

use std::sync::OnceLock;

use dlbridge::sys::{DLManagedTensor, DLManagedTensorVersioned};
use dlbridge::{Access, ArcTensor, DataType, Tensor};
use pyo3::prelude::*;

use crate::borrow::{Borrowed, Guard};
use crate::imported::{Imported, Protocol};
use crate::python::error::to_py_err;
use crate::record::{Common, Record};
use crate::stream::DataStream;

/// A tensor over memory that Rust owns or a producer shares, as a result: in Python it is a `dlbridge.Tensor`.
///
/// Return it from a `#[pyfunction]`. Where the package `dlbridge` is installed, the object is a `dlbridge.Tensor`; without
/// it, the object is a NumPy array.
///
/// To keep one, make it a field of a class, which returns [`to_object`](Self::to_object) or [`numpy`](Self::numpy) from a
/// getter, reads and writes it by [`extract`](Self::extract), or exports it by [`producer`](macro@crate::producer), any number of
/// times. Each of these objects keeps the memory alive. It is not `Clone`: the only writable export of
/// [`writable_once`](Self::writable_once) has one owner. Several structs share an `Arc<PyTensor>`.
///
/// The data of a tensor on CUDA or ROCm must be synchronised with the default stream.
///
/// ```no_run
/// use dlbridge_pyo3::PyTensor;
/// use dlbridge_pyo3::dlbridge::Tensor;
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn identity(n: usize) -> PyResult<PyTensor> {
///     let mut matrix = Tensor::zeros::<f64>([n, n])?;
///     let mut view = matrix.view_mut::<f64>()?;
///     (0..n).for_each(|i| view[(i, i)] = 1.0);
///     Ok(PyTensor::from(matrix))
/// }
/// ```
pub struct PyTensor {
    tensor: ArcTensor,
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

impl From<Imported> for PyTensor {
    #[inline]
    fn from(imported: Imported) -> Self {
        Self::imported_on(imported, DataStream::Default)
    }
}

impl PyTensor {
    /// A tensor whose first export may be written, and every later one only read: for memory that a class of an
    /// extension keeps and gives to consumers that do not know each other.
    ///
    /// The tensor itself is read-only, and so are its slices and buffers. The first consumer that takes it by DLPack,
    /// also through [`numpy`](Self::numpy), `t.numpy()`, `t.torch()` and `t.to(...)`, gets the memory writable and without
    /// a copy. A tensor that others hold too, such as one of `Bytes` with several handles, is only read. A capsule that is
    /// dropped unused, and `dlbridge.explain`, count as the first consumer, and so does a call of `t.to(...)` that copies or
    /// fails. A legacy capsule, which cannot be marked, gets a copy.
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
        Self::first_writable(tensor)
    }

    /// The dtype of the elements.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyTensor;
    /// use dlbridge_pyo3::dlbridge::DataType;
    ///
    /// assert_eq!(PyTensor::from(vec![1.0_f32]).dtype(), DataType::FLOAT32);
    /// ```
    pub fn dtype(&self) -> DataType {
        self.tensor.dtype()
    }

    /// The extents, in elements.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyTensor;
    ///
    /// assert_eq!(PyTensor::from([[1.0_f32, 2.0], [3.0, 4.0]]).shape(), [2, 2]);
    /// ```
    pub fn shape(&self) -> &[i64] {
        self.tensor.shape()
    }
}

/// For the Python package and this crate.
#[doc(hidden)]
impl PyTensor {
    #[inline]
    pub fn with_record(tensor: Tensor, common: Common, stream: DataStream) -> Self {
        let record = Record::new(&tensor, common, stream);
        Self { tensor: tensor.into_shared(), record }
    }

    /// As [`writable_once`](Self::writable_once), for memory that may be written.
    pub fn first_writable(tensor: Tensor) -> Self {
        let writable = tensor.into_shared();
        let tensor = writable.share().into_shared();
        Self { tensor, record: Record::writable_once(writable) }
    }

    /// Takes the only writable export, as a tensor of its own.
    pub fn take_writable(&self) -> Option<Self> {
        let tensor = self.record.take_writable()?;
        Some(Self { record: Record::new(&tensor, Common::default(), DataStream::Default), tensor })
    }

    /// Returns true if the next export may not be written.
    pub fn exports_read_only(&self) -> bool {
        self.is_read_only() && !self.record.has_writable()
    }

    /// An import that is synchronised with a stream.
    #[inline]
    pub fn imported_on(imported: Imported, stream: DataStream) -> Self {
        let Imported { tensor, protocol, reason, version } = imported;
        Self::with_record(tensor, Common { protocol: Some(protocol), reason, version }, stream)
    }

    /// The import record.
    #[inline]
    pub fn record(&self) -> Common {
        self.record.common()
    }

    /// The protocol of the import; `None` for a tensor that Rust made.
    #[inline]
    pub fn imported_by(&self) -> Option<Protocol> {
        self.record().protocol
    }

    /// The stream that the data is synchronised with.
    pub fn stream(&self) -> &DataStream {
        self.record.stream()
    }

    /// The device as a tuple of DLPack device type and device id.
    pub fn device_pair(&self) -> (i32, i32) {
        let device = self.tensor.device();
        (device.device_type().code(), device.id())
    }

    /// The tensor. Code that returns a view of it must borrow its memory.
    pub fn tensor(&self) -> &ArcTensor {
        &self.tensor
    }

    /// Returns true if the data is read-only, or if its producer could not mark it.
    pub fn is_read_only(&self) -> bool {
        let Common { protocol, reason, .. } = self.record();
        let told = reason.is_some() || protocol.is_none_or(Protocol::tells_read_only);
        !told || self.tensor.is_read_only()
    }

    /// Returns true if Rust made the tensor instead of importing it.
    pub(crate) fn is_rusts_own(&self) -> bool {
        self.imported_by().is_none()
    }

    /// Takes the tensor out, if it may be written and no export has it; otherwise it returns `self`.
    #[inline]
    pub(crate) fn into_tensor(self) -> Result<Tensor, Self> {
        if !self.record.is_plain() || self.tensor.is_read_only() {
            return Err(self);
        }
        let Self { tensor, record } = self;
        tensor.try_into_tensor().map_err(|tensor| Self { tensor, record })
    }

    /// Another tensor with the same import record.
    pub fn with_same_record(&self, tensor: Tensor) -> Self {
        Self::with_record(tensor, self.record(), *self.stream())
    }

    /// A second handle on the same memory, which claims no exclusivity.
    pub fn alias(&self) -> PyResult<Tensor> {
        match self.is_read_only() {
            true => Ok(self.tensor.share()),
            false => self.second(),
        }
    }

    /// As [`alias`](Self::alias), with the flags of the tensor itself, for a tensor with the same import record.
    pub fn second(&self) -> PyResult<Tensor> {
        // SAFETY: `to_raw` just made the managed tensor, and this is its only use. If Python code writes while a view
        // is alive, the program has a race (see the crate documentation).
        unsafe { Tensor::from_raw(self.tensor.to_raw()) }.map_err(to_py_err)
    }

    /// Borrows read-only memory that Rust made, for reading, as long as this object lives: some consumers ignore the
    /// read-only flag. A borrow for writing is then refused.
    pub fn keep_reading(&self) -> PyResult<()> {
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
    pub fn for_consumer(&self) -> PyResult<ArcTensor> {
        match self.is_rusts_own() && self.is_read_only() {
            true => Ok(Borrowed::read_only(&self.tensor)?.into_shared()),
            false => Ok(self.tensor.clone()),
        }
    }

    /// A managed tensor over the same memory for a consumer.
    #[inline]
    pub fn to_raw(&self) -> PyResult<*mut DLManagedTensorVersioned> {
        match self.record.is_plain() && !self.tensor.is_read_only() {
            true => Ok(self.tensor.to_raw()),
            false => self.to_raw_of_import(),
        }
    }

    fn to_raw_of_import(&self) -> PyResult<*mut DLManagedTensorVersioned> {
        match self.record.take_writable() {
            Some(writable) => Ok(writable.to_raw()),
            None => self.to_raw_as_it_is(),
        }
    }

    /// As [`to_raw`](Self::to_raw), and leaves the only writable export to others.
    pub(crate) fn to_raw_as_it_is(&self) -> PyResult<*mut DLManagedTensorVersioned> {
        Ok(match (self.is_read_only(), self.imported_by()) {
            (false, _) => self.tensor.to_raw(),
            (true, None) => Borrowed::read_only(&self.tensor)?.into_raw(),
            (true, Some(_)) => self.tensor.share().into_raw(),
        })
    }

    /// A legacy managed tensor over the same memory, for data that it can express.
    pub fn to_raw_legacy(&self) -> PyResult<*mut DLManagedTensor> {
        self.tensor.to_raw_legacy().map_err(to_py_err)
    }
}

/// The tensor of an object of the package's class; `None` for other objects.
pub type TensorOf = for<'a> fn(&'a Bound<'_, PyAny>) -> Option<&'a PyTensor>;

/// Set by the package in its own module, which links this crate, and empty in an extension.
static OF_PACKAGE: OnceLock<TensorOf> = OnceLock::new();

/// Lets the package's own module recognise the objects of its class.
pub fn set_class(tensor_of: TensorOf) {
    let _ = OF_PACKAGE.set(tensor_of);
}

/// The tensor of an object of the package's class, in the package.
pub fn of_class<'a>(object: &'a Bound<'_, PyAny>) -> Option<&'a PyTensor> {
    OF_PACKAGE.get()?(object)
}
