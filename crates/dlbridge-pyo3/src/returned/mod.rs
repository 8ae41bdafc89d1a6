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
use crate::python::error::type_name;
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
    /// The tensor as an object of the library that another object belongs to, usually an argument: a caller that
    /// passes PyTorch tensors gets PyTorch tensors. The memory is shared, as by
    /// [`dlbridge.like`](https://pypi.org/project/dlbridge); for bytes, bytearrays and similar objects the result is
    /// a memoryview. For an object of an unknown library it is the tensor itself, which every `from_dlpack` accepts.
    /// Other libraries than NumPy and PyTorch need the Python package `dlbridge`.
    ///
    /// # Errors
    /// `ModuleNotFoundError` without that package; `BufferError` for a tensor that the library cannot import; any exception of the library.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::{PyReadonlyTensor, PyTensor};
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn twice<'py>(x: PyReadonlyTensor<'py, f32, 1>) -> PyResult<Bound<'py, PyAny>> {
    ///     let doubled: Vec<f32> = x.iter().map(|v| 2.0 * v).collect();
    ///     PyTensor::from(doubled).into_like(x.object())
    /// }
    /// ```
    pub fn into_like<'py>(self, prototype: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
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
