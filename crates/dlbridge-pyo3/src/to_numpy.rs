//! Tensors and elements as arrays of NumPy.

use dlbridge::{Datetime64, Element, Seconds, Tensor};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use crate::borrow::Borrowed;
use crate::elements::Elements;
use crate::error::{library, to_py_err};
use crate::numpy::api::NumpyApi;

/// A new tensor of our own as a NumPy array, made by NumPy's C API.
pub(crate) fn give_numpy(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    if !tensor.is_read_only()
        && let Some(api) = NumpyApi::known(py)
    {
        return match api.array(py, tensor)? {
            Ok(array) => Ok(array),
            Err(tensor) => give_numpy_slowly(py, tensor),
        };
    }
    give_numpy_slowly(py, tensor)
}

/// The elements of a vector as a NumPy array.
#[inline]
pub(crate) fn give_elements(py: Python<'_>, elements: Elements) -> PyResult<Bound<'_, PyAny>> {
    let elements = match NumpyApi::known(py) {
        Some(api) => match api.array_of_elements(py, elements)? {
            Ok(array) => return Ok(array),
            Err(elements) => elements,
        },
        None => elements,
    };
    give_numpy_slowly(py, elements.into_tensor().map_err(to_py_err)?)
}

/// As [`give_numpy`], for the first array of a process, read-only memory, and tensors that NumPy's
/// C API cannot wrap.
#[cold]
fn give_numpy_slowly(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    // Imports NumPy, or raises that it is not installed.
    library(py, "numpy", "numpy", "numpy")?;
    let api = NumpyApi::of_loaded(py)?;
    if let Some(most) = api.map(NumpyApi::max_ndim).filter(|&most| most < tensor.ndim()) {
        return Err(PyBufferError::new_err(format!(
            "numpy takes at most {most} dimensions, not {}; reshape the tensor first",
            tensor.ndim()
        )));
    }
    if tensor.dtype() == Datetime64::<Seconds>::DTYPE {
        return Err(PyBufferError::new_err(
            "numpy does not support handle64; if the elements are times, return Numpy<Datetime64<U>, N>, whose type has the unit \
             that a Tensor does not keep",
        ));
    }
    let api = api.filter(|api| api.has(&tensor));
    let general = |tensor| through_dlpack(py, tensor);
    let Some(api) = api else { return general(tensor) };
    let tensor = match tensor.is_read_only() {
        true => Borrowed::read_only(&tensor.into_shared())?,
        false => tensor,
    };
    api.array(py, tensor)?.or_else(general)
}

/// As [`give_numpy`], for a tensor that NumPy's C API cannot wrap.
#[cfg(feature = "tensor-class")]
fn through_dlpack(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    use crate::{PyTensor, to_library};
    to_library::to(&Bound::new(py, PyTensor::from(tensor))?, &to_library::NUMPY, None)
}

/// Refuses a tensor that NumPy's C API cannot wrap: only the class `Tensor` makes such arrays.
#[cfg(not(feature = "tensor-class"))]
fn through_dlpack(_: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    let (dtype, device) = (tensor.dtype(), tensor.device());
    Err(PyBufferError::new_err(format!(
        "numpy's C API cannot make an array of {dtype} on {device}; build the extension with the feature \
         `tensor-class` of dlbridge-pyo3, or return another dtype on the CPU"
    )))
}
