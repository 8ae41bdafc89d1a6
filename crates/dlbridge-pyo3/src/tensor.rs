//! The Python class.

mod streams;

use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

use dlbridge::sys::{DLManagedTensor, DLManagedTensorVersioned, DLPackVersion};
use dlbridge::{Device, Tensor};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use self::streams::remembered;
use crate::borrow::{Borrowed, Guard};
use crate::error::to_py_err;
use crate::protocol::{
    self, DataStream, Imported, Protocol, Streams, array_interface, array_struct, arrow, buffer,
    cuda_array_interface, dlpack_method, exchange_table,
};
use crate::receipt::CopyReason;
use crate::wanted::{Wanted, expect_bool};
use crate::{home, lent, live, pickle};

/// A tensor over memory that somebody lent or that Rust owns.
///
/// Any framework's `from_dlpack` takes it, any number of times; each result keeps the memory alive.
#[cfg_attr(doc, doc = include_str!("tensor.md"))]
#[pyclass(name = "Tensor", module = "dlbridge", frozen, weakref)]
pub struct PyTensor {
    tensor: Arc<Tensor>,
    protocol: Option<Protocol>,
    reason: Option<CopyReason>,
    version: Option<DLPackVersion>,
    /// Which stream the data is in the order of, where it is not the default one.
    stream: Option<Box<DataStream>>,
    /// Held once read-only memory that Rust made went out by a door whose consumers keep this object.
    reading: OnceLock<Guard>,
}

impl From<Tensor> for PyTensor {
    fn from(tensor: Tensor) -> Self {
        let (tensor, reading) = (Arc::new(tensor), OnceLock::new());
        Self { tensor, protocol: None, reason: None, version: None, stream: None, reading }
    }
}

impl From<Imported> for PyTensor {
    fn from(imported: Imported) -> Self {
        let Imported { tensor, protocol, reason, version } = imported;
        let (tensor, reading) = (Arc::new(tensor), OnceLock::new());
        Self { tensor, protocol: Some(protocol), reason, version, stream: None, reading }
    }
}

impl PyTensor {
    /// Imports any Python object that speaks a protocol. A `Tensor` comes back as it is, if it is as
    /// wanted and no door is.
    ///
    /// # Errors
    /// As [`import`](crate::import); `BufferError` if the data cannot be had as wanted.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::{PyTensor, Wanted};
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn keep<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTensor>> {
    ///     PyTensor::import(x, &Wanted::default())
    /// }
    /// ```
    pub fn import<'py>(object: &Bound<'py, PyAny>, wanted: &Wanted) -> PyResult<Bound<'py, Self>> {
        let py = object.py();
        let ours = object.cast::<Self>().ok().filter(|_| wanted.protocol.is_none());
        let Some(ours) = ours else {
            let imported = protocol::by_ladder(object, wanted)?;
            return match imported.tensor.device().device_type().is_host_accessible() {
                true => Bound::new(py, Self::from(imported)),
                false => Self::on_stream(object, imported, &Streams::default()),
            };
        };
        let Self { tensor, protocol, version, .. } = ours.get();
        let read_only = ours.get().is_read_only();
        if let Some(copied) = ours.get().copied_by_driver(py, wanted, &Streams::default())? {
            return Bound::new(py, copied);
        }
        if let Some((copy, reason)) = wanted.copy_of(tensor, read_only, false)? {
            let copy = if wanted.writable == Some(false) { copy.into_read_only() } else { copy };
            let (tensor, protocol, version) = (Arc::new(copy), *protocol, *version);
            let (reason, reading) = (Some(reason), OnceLock::new());
            let stream = None;
            return Bound::new(py, Self { tensor, protocol, reason, version, stream, reading });
        }
        if wanted.writable == Some(false) && !tensor.is_read_only() {
            return Bound::new(py, ours.get().with_tensor(py, Arc::new(tensor.share())));
        }
        Ok(ours.clone())
    }

    /// Imports through `__dlpack__` alone, as the function `from_dlpack` of the array API standard:
    /// `device` is where the data is to be.
    ///
    /// # Errors
    /// As [`import`](crate::import); `BufferError` if the producer cannot give the data on `device`;
    /// `AttributeError` for an object without `__dlpack__`.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyTensor;
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn on_cpu<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTensor>> {
    ///     PyTensor::from_dlpack(x, Some(dlbridge::Device::CPU), None)
    /// }
    /// ```
    pub fn from_dlpack<'py>(
        object: &Bound<'py, PyAny>,
        device: Option<Device>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, Self>> {
        let wanted = Wanted { copy, device, ..Wanted::default() };
        Self::from_dlpack_on(object, &wanted, &Streams::default())
    }

    /// The tensor. Who hands out a view of it borrows its memory.
    pub(crate) fn tensor(&self) -> &Arc<Tensor> {
        &self.tensor
    }

    /// Whether the data must not be written, or its producer could not have said so.
    pub(crate) fn is_read_only(&self) -> bool {
        let told = self.reason.is_some() || self.protocol.is_none_or(Protocol::tells_read_only);
        !told || self.tensor.is_read_only()
    }

    /// The tensor itself, unless it is lent or is not Rust's own; then this comes back.
    pub(crate) fn into_tensor(self) -> Result<Tensor, Self> {
        if self.protocol.is_some() || self.reading.get().is_some() || live::is_recording() {
            return Err(self);
        }
        let Self { tensor, protocol, reason, version, stream, reading } = self;
        Arc::try_unwrap(tensor).map_err(|tensor| Self {
            tensor,
            protocol,
            reason,
            version,
            stream,
            reading,
        })
    }

    /// The version of DLPack that the producer's managed tensor said it was of.
    pub(crate) fn version(&self) -> Option<DLPackVersion> {
        self.version
    }

    /// Another tensor that came the same way.
    pub(crate) fn with_tensor(&self, py: Python<'_>, tensor: Arc<Tensor>) -> Self {
        let Self { protocol, reason, version, .. } = *self;
        let stream = remembered(self.stream().clone_ref(py));
        Self { tensor, protocol, reason, version, stream, reading: OnceLock::new() }
    }

    /// A second handle on the same memory, which claims no exclusivity.
    pub(crate) fn alias(&self) -> PyResult<Tensor> {
        if self.is_read_only() {
            return Ok(self.tensor.share());
        }
        // SAFETY: just lent, and nobody else's. Python code that writes while a view is alive is
        // the program's race (see the crate documentation).
        unsafe { Tensor::from_raw(self.tensor.lend()) }.map_err(to_py_err)
    }

    /// Borrows read-only memory that Rust made to be read as long as this object lives: not every consumer
    /// keeps in mind that it must not be written, and who writes by a borrow is refused.
    fn keep_reading(&self) -> PyResult<()> {
        let rusts_own = self.protocol.is_none() && self.is_read_only();
        if rusts_own && self.reading.get().is_none() {
            // Another thread may have been quicker, and then this one is given back.
            let _ = self.reading.set(Guard::reading(&self.tensor, "read-only dlbridge.Tensor")?);
        }
        Ok(())
    }

    /// A managed tensor over the same memory for a consumer behind a door.
    pub(crate) fn lend(&self, door: Protocol) -> PyResult<*mut DLManagedTensorVersioned> {
        let read_only = self.is_read_only();
        if live::is_recording() {
            let recorded = lent::same(&self.tensor, door.name(), read_only).map_err(to_py_err)?;
            return Ok(match (read_only, self.protocol) {
                (true, None) => Borrowed::read_only(&Arc::new(recorded))?.into_raw(),
                _ => recorded.into_raw(),
            });
        }
        Ok(match (read_only, self.protocol) {
            (false, _) => self.tensor.lend(),
            (true, None) => Borrowed::read_only(&self.tensor)?.into_raw(),
            (true, Some(_)) => self.tensor.share().into_raw(),
        })
    }

    /// A legacy managed tensor over the same memory, for data that such a one can express.
    pub(crate) fn lend_legacy(&self) -> PyResult<*mut DLManagedTensor> {
        let lent = if live::is_recording() {
            let read_only = self.tensor.is_read_only();
            lent::same(&self.tensor, Protocol::LegacyDlpack.name(), read_only)
                .and_then(|recorded| recorded.into_raw_legacy().map_err(|(_, error)| error))
        } else {
            self.tensor.lend_legacy()
        };
        lent.map_err(to_py_err)
    }
}

#[pymethods]
impl PyTensor {
    /// The method with which a tensor goes to others.
    #[classattr]
    fn __dlpack__(py: Python<'_>) -> PyResult<Py<PyAny>> {
        dlpack_method::descriptor(py)
    }

    /// The C exchange API of DLPack, for consumers in C.
    #[classattr]
    fn __dlpack_c_exchange_api__(py: Python<'_>) -> PyResult<Py<PyAny>> {
        exchange_table::capsule(py).map(Bound::unbind)
    }

    /// The array interface of NumPy, for data on the CPU.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.keep_reading()?;
        array_interface::export(py, &self.tensor, self.is_read_only())
    }

    /// The array interface of NumPy as a C struct, for data on the CPU.
    #[getter]
    fn __array_struct__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.keep_reading()?;
        array_struct::export(py, &self.tensor, self.is_read_only())
    }

    /// The array interface of CUDA, for data on such a device.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        cuda_array_interface::export(py, self)
    }

    /// The Arrow PyCapsule interface, for numbers that are adjacent. A request for another type is not
    /// met.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        self.keep_reading()?;
        arrow::export(py, &self.tensor)
    }

    /// The type of the Arrow array.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::export_schema(py, &self.tensor)
    }

    unsafe fn __getbuffer__(
        this: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        this.get().keep_reading()?;
        let read_only = this.get().is_read_only();
        // SAFETY: Python gives a place to write to.
        unsafe { buffer::export(this.as_any(), &this.get().tensor, read_only, view, flags) }
    }

    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: Python gives back what `__getbuffer__` filled, once.
        unsafe { buffer::take_back(view) }
    }

    /// The device as a tuple of DLPack device type and device id.
    fn __dlpack_device__(&self) -> (i32, i32) {
        let device = self.tensor.device();
        (device.device_type().code(), device.id())
    }

    /// For `numpy.asarray` and what calls it, where no other door of NumPy's knows the dtype.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        this: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        home::to_array(this, dtype, copy)
    }

    /// For `jax.numpy.asarray` and JAX's functions.
    fn __jax_array__<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::to(this, "jax", None)
    }

    fn __reduce_ex__<'py>(
        this: &Bound<'py, Self>,
        protocol: i32,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        pickle::reduce(this, protocol)
    }

    /// An array of NumPy. dtypes that NumPy does not have come as those of ml_dtypes.
    #[pyo3(signature = (*, copy=None))]
    fn numpy<'py>(
        this: &Bound<'py, Self>,
        copy: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::to(this, "numpy", copy)
    }

    /// A tensor of PyTorch.
    #[pyo3(signature = (*, copy=None))]
    fn torch<'py>(
        this: &Bound<'py, Self>,
        copy: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::to(this, "torch", copy)
    }

    /// An array of JAX.
    #[pyo3(signature = (*, copy=None))]
    fn jax<'py>(
        this: &Bound<'py, Self>,
        copy: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::to(this, "jax", copy)
    }

    /// An object of a library that is known by name.
    #[pyo3(signature = (library, /, *, copy=None))]
    fn to<'py>(
        this: &Bound<'py, Self>,
        library: &str,
        copy: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
        home::to(this, home::consumer(library)?, copy)
    }

    /// The extents, in elements.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.shape())
    }

    /// The strides, in elements.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.strides())
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.tensor.ndim()
    }

    /// The name of the dtype, like 'float32'.
    #[getter]
    fn dtype(&self) -> String {
        self.tensor.dtype().to_string()
    }

    /// The name of the device, like 'cpu' or 'cuda:0'.
    #[getter]
    fn device(&self) -> String {
        self.tensor.device().to_string()
    }

    /// Whether the data must not be written. A legacy producer cannot say so; what it lends is taken
    /// for read-only.
    #[getter]
    fn readonly(&self) -> bool {
        self.is_read_only()
    }

    /// The door the tensor came through, like 'dlpack' or 'buffer'; None if Rust made it.
    #[getter]
    fn protocol(&self) -> Option<&'static str> {
        self.protocol.map(Protocol::name)
    }

    /// Whether the elements were copied on the way in, by the producer or by dlbridge.
    #[getter]
    fn copied(&self) -> bool {
        self.reason.is_some()
    }

    /// Why the elements were copied on the way in, as a sentence; None if they were not.
    #[getter]
    fn copy_reason(&self) -> Option<String> {
        self.reason.map(|reason| reason.to_string())
    }

    /// The stream that the data is in the order of: its number as in the array API standard, -1 if none is known,
    /// the queue of SYCL; None on devices that have none.
    #[getter(stream)]
    fn stream_object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.stream().to_object(py, self.tensor.device())
    }

    /// The number of bytes that the elements take when they are adjacent.
    #[getter]
    fn nbytes(&self) -> u128 {
        self.tensor.nbytes()
    }

    /// The address of the element at index zero as an integer; 0 without elements, a handle on
    /// devices that have handles.
    #[getter]
    fn address(&self) -> usize {
        self.tensor.data().addr()
    }

    fn __repr__(&self) -> String {
        let tuple = |numbers: &[i64]| match numbers {
            [one] => format!("({one},)"),
            _ => format!("({})", numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
        };
        let bool = |value| if value { "True" } else { "False" };
        let protocol = self.protocol.map_or("None".to_owned(), |door| format!("'{}'", door.name()));
        format!(
            "dlbridge.Tensor(shape={}, strides={}, dtype='{}', device='{}', readonly={}, \
             protocol={protocol}, copied={})",
            tuple(self.tensor.shape()),
            tuple(self.tensor.strides()),
            self.tensor.dtype(),
            self.tensor.device(),
            bool(self.is_read_only()),
            bool(self.reason.is_some()),
        )
    }
}
