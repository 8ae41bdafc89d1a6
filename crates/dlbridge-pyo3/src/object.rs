//! The Python object of a tensor: a `Tensor` of the package `dlbridge`, or an [`Exporter`] where that is not installed.

use dlbridge::Tensor;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::PyTensor;
use crate::error::to_py_err;
use crate::import::hub;
use crate::producer::Producer;
use crate::protocol::{buffer_export, dlpack_method};
use crate::returned::give_numpy;

impl PyTensor {
    /// An object over the same memory, for a class that keeps the tensor. Elements of
    /// [`writable_once`](Self::writable_once) are read-only in it.
    ///
    /// # Errors
    /// `BufferError` for read-only memory that is borrowed for writing; any exception of importing the package `dlbridge`.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyTensor;
    /// use pyo3::prelude::*;
    ///
    /// #[pyclass(frozen)]
    /// struct Sound {
    ///     samples: PyTensor,
    /// }
    ///
    /// #[pymethods]
    /// impl Sound {
    ///     #[getter]
    ///     fn samples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
    ///         self.samples.to_object(py)
    ///     }
    /// }
    /// ```
    pub fn to_object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match hub::tensor_table(py)? {
            Some(table) => {
                self.in_default_order(py)?;
                // SAFETY: the managed tensor was just made, and nothing else uses it.
                unsafe { table.object_of(py, self.to_raw_as_it_is()?) }
            }
            None => Ok(Exporter::of(py, self)?.into_any()),
        }
    }

    /// A NumPy array over the same memory, made by NumPy's C API.
    ///
    /// # Errors
    /// As a function that returns a [`Numpy`](crate::Numpy).
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyTensor;
    /// use pyo3::prelude::*;
    ///
    /// #[pyclass(frozen)]
    /// struct Histogram {
    ///     counts: PyTensor,
    /// }
    ///
    /// #[pymethods]
    /// impl Histogram {
    ///     #[getter]
    ///     fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
    ///         self.counts.numpy(py)
    ///     }
    /// }
    /// ```
    pub fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: `to_raw` just made the managed tensor, and this is its only use. If Python code writes while a view
        // is alive, the program has a race (see the crate documentation).
        give_numpy(py, unsafe { Tensor::from_raw(self.to_raw()?) }.map_err(to_py_err)?)
    }

    /// The memory as a typed argument, with a borrow: a class accesses a tensor that it keeps as all other code does.
    ///
    /// # Errors
    /// As a function with such an argument.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::{PyReadonlyTensor, PyTensor};
    /// use pyo3::prelude::*;
    ///
    /// fn total(py: Python<'_>, samples: &PyTensor) -> PyResult<f32> {
    ///     let samples: PyReadonlyTensor<'_, f32, 1> = samples.extract(py)?;
    ///     Ok(samples.iter().sum())
    /// }
    /// ```
    pub fn extract<'py, A>(&self, py: Python<'py>) -> PyResult<A>
    where
        A: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
    {
        self.to_object(py)?.extract::<A>().map_err(Into::into)
    }
}

impl<'py> IntoPyObject<'py> for PyTensor {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    #[inline]
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Some(table) = hub::tensor_table(py)? else {
            return Ok(Bound::new(py, Exporter(self))?.into_any());
        };
        match self.into_tensor() {
            Ok(tensor) => table.give(py, tensor),
            Err(tensor) => match tensor.take_writable() {
                Some(writable) => hub::writable_once(&writable.to_object(py)?),
                None => tensor.to_object(py),
            },
        }
    }
}

/// The object of a tensor where the package is not installed: it exports the tensor, and has nothing else.
#[pyclass(module = "dlbridge_pyo3", frozen, weakref)]
pub(crate) struct Exporter(PyTensor);

impl Exporter {
    /// An object over the memory of a tensor.
    pub(crate) fn of<'py>(py: Python<'py>, tensor: &PyTensor) -> PyResult<Bound<'py, Self>> {
        Bound::new(py, Self(tensor.second_handle()))
    }

    pub(crate) fn tensor(&self) -> &PyTensor {
        &self.0
    }
}

// SAFETY: the class is frozen, and its only field is the tensor.
unsafe impl Producer for Exporter {
    #[inline]
    fn lend<R>(
        object: &Bound<'_, Self>,
        use_it: impl FnOnce(&PyTensor) -> PyResult<R>,
    ) -> PyResult<R> {
        use_it(&object.get().0)
    }
}

#[pymethods]
impl Exporter {
    /// The DLPack export of the array API standard.
    #[classattr]
    fn __dlpack__(py: Python<'_>) -> PyResult<Py<PyAny>> {
        dlpack_method::descriptor::<Self>(py)
    }

    /// The device as a tuple of DLPack device type and device id.
    fn __dlpack_device__(&self) -> (i32, i32) {
        self.0.device_pair()
    }

    unsafe fn __getbuffer__(
        this: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: std::ffi::c_int,
    ) -> PyResult<()> {
        // SAFETY: Python passes NULL, or a `Py_buffer` to write to.
        unsafe { buffer_export::export(this.as_any(), &this.get().0, view, flags) }
    }

    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: Python passes a buffer that `__getbuffer__` filled, once.
        unsafe { buffer_export::take_back(view) }
    }
}
