//! Return values: a tensor as an object of the caller's library.

#[cfg(feature = "experimental-inspect")]
mod hint;
mod like;
mod numpy;
mod torch;

use dlbridge::{Error, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyMemoryView};

use crate::argument::{Accepts, DYNAMIC};
use crate::borrow::Borrowed;
use crate::capsule;
use crate::import::{has, hub};
use crate::imported::Protocol;
use crate::protocol::{buffer, type_info};
use crate::python::error::{to_py_err, type_name};
use crate::tensor::PyTensor;

pub use like::Like;
pub(crate) use numpy::give_numpy;
pub use numpy::{IntoNumpy, Numpy};
pub use torch::Torch;

/// Returns an error for a tensor with a different dtype or number of dimensions.
fn check<A: Accepts, const N: usize>(tensor: &Tensor) -> Result<(), Error> {
    let (found, ndim) = (tensor.dtype(), tensor.ndim());
    match A::DTYPES {
        [expected, ..] if !A::DTYPES.contains(&found) => {
            Err(Error::DataType { expected: *expected, found })
        }
        _ if N != DYNAMIC && ndim != N => Err(Error::Ndim { expected: N, found: ndim }),
        _ => Ok(()),
    }
}

/// A versioned capsule that owns a tensor, for your own `__dlpack__` and for consumers of bare capsules. NumPy and
/// JAX need the object instead, a [`PyTensor`].
///
/// # Errors
/// `BufferError` for read-only memory that is borrowed for writing.
///
/// ```no_run
/// use pyo3::prelude::*;
/// use pyo3::types::{PyCapsule, PyMemoryView};
///
/// #[pyfunction]
/// fn ramp(py: Python<'_>, n: usize) -> PyResult<Bound<'_, PyCapsule>> {
///     let elements: Vec<f32> = (0..n).map(|i| i as f32).collect();
///     dlbridge_pyo3::into_capsule(py, dlbridge::Tensor::from(elements))
/// }
/// ```
pub fn into_capsule(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyCapsule>> {
    let managed = match tensor.is_read_only() {
        true => Borrowed::read_only(&tensor.into_shared())?.into_raw(),
        false => tensor.into_raw(),
    };
    // SAFETY: the managed tensor is made from a tensor of ours, and only the capsule gets it.
    unsafe { capsule::versioned(py, managed) }
}

impl PyTensor {
    /// An object over the same memory, for a class that keeps the tensor: a `dlbridge.Tensor`, or a NumPy array where the
    /// package `dlbridge` is not installed.
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
        let managed = self.to_raw()?;
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
    /// As a function that returns a [`Numpy`].
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

    /// The tensor as an object of the library that another object belongs to, as [`Like`].
    pub(crate) fn into_like<'py>(
        self,
        prototype: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if type_info::array_of(prototype).is_some() {
            return self.into_numpy(prototype.py());
        }
        if torch::is_torch(prototype)? {
            return torch::give_torch(prototype.py(), self);
        }
        let py = prototype.py();
        if hub::tensor_table(py)?.is_none()
            && buffer::is_supported(prototype)
            && !has(prototype, Protocol::Dlpack)?
        {
            return Ok(PyMemoryView::from(&self.into_pyobject(py)?)?.into_any());
        }
        hub::require(py, &|| {
            format!("a result like {} is made by the package dlbridge", type_name(prototype))
        })?;
        hub::like(prototype, &self.into_pyobject(py)?)
    }

    /// The tensor as an object of a library, by the name that `Tensor.to` takes: `"numpy"`, `"torch"`, ...
    /// The memory is shared; a library with an exchange table imports through that. Other libraries than NumPy and PyTorch
    /// need the Python package `dlbridge`.
    ///
    /// # Errors
    /// `ValueError` for an unknown name; `ModuleNotFoundError` if the library or that package is not installed; `BufferError` for a
    /// tensor that it cannot import; any exception of the library.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyTensor;
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn ramp(py: Python<'_>, n: usize) -> PyResult<Bound<'_, PyAny>> {
    ///     PyTensor::from((0..n).map(|i| i as f32).collect::<Vec<_>>()).into_library(py, "numpy")
    /// }
    /// ```
    pub fn into_library<'py>(self, py: Python<'py>, library: &str) -> PyResult<Bound<'py, PyAny>> {
        match library {
            "numpy" => self.into_numpy(py),
            "torch" => torch::give_torch(py, self),
            _ => hub::converted(py, self, library),
        }
    }

    /// The tensor as a NumPy array.
    pub(crate) fn into_numpy(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self.into_tensor() {
            Ok(tensor) => give_numpy(py, tensor),
            Err(tensor) => tensor.numpy(py),
        }
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
            Err(tensor) => tensor.to_object(py),
        }
    }
}
