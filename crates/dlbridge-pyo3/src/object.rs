//! The Python object of a tensor: a `Tensor` of the package `dlbridge`, or a NumPy array where that is not installed.

use dlbridge::Tensor;
use pyo3::prelude::*;

use crate::import::hub;
use crate::python::error::to_py_err;
use crate::returned::give_numpy;
use crate::tensor::PyTensor;

impl PyTensor {
    /// An object over the same memory, for a class that keeps the tensor: a `dlbridge.Tensor`, or a NumPy array where the
    /// package `dlbridge` is not installed. Elements of
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
        let table = hub::tensor_table(py)?;
        let managed = self.to_raw_as_it_is()?;
        // SAFETY: the managed tensor was just made, and this is its only use. If Python code writes while a view is alive, the
        // program has a race (see the crate documentation).
        unsafe {
            match table {
                Some(table) => table.object_of(py, managed),
                None => give_numpy(py, Tensor::from_raw(managed).map_err(to_py_err)?),
            }
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

    #[cfg(feature = "experimental-inspect")]
    const OUTPUT_TYPE: pyo3::inspect::PyStaticExpr = pyo3::type_hint_identifier!("typing", "Any");

    #[inline]
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Some(table) = hub::tensor_table(py)? else { return self.into_numpy(py) };
        match self.into_tensor() {
            Ok(tensor) => table.give(py, tensor),
            Err(tensor) => match tensor.take_writable() {
                Some(writable) => hub::writable_once(&writable.to_object(py)?),
                None => tensor.to_object(py),
            },
        }
    }
}
