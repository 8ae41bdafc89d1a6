//! The functions that the methods of [`producer`](macro@crate::producer) call: each gets the tensor of an object and
//! exports it through one protocol.

use std::ffi::c_int;

use dlbridge::{Error, Tensor};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::error::to_py_err;
use crate::protocol::dlpack_export::{self, Keywords};
use crate::protocol::{buffer_export, exchange_table};
use crate::{PyTensor, to_library};

/// The result types of a function that returns the tensor of an object.
pub trait IntoTensor {
    /// The tensor, for Python.
    ///
    /// # Errors
    /// Those of the function.
    fn into_bound(self, py: Python<'_>) -> PyResult<Bound<'_, PyTensor>>;
}

impl IntoTensor for &Py<PyTensor> {
    fn into_bound(self, py: Python<'_>) -> PyResult<Bound<'_, PyTensor>> {
        Ok(self.bind(py).clone())
    }
}

impl IntoTensor for Py<PyTensor> {
    fn into_bound(self, py: Python<'_>) -> PyResult<Bound<'_, PyTensor>> {
        Ok(self.into_bound(py))
    }
}

impl IntoTensor for PyTensor {
    fn into_bound(self, py: Python<'_>) -> PyResult<Bound<'_, PyTensor>> {
        Bound::new(py, self)
    }
}

impl IntoTensor for Tensor {
    fn into_bound(self, py: Python<'_>) -> PyResult<Bound<'_, PyTensor>> {
        Bound::new(py, PyTensor::from(self))
    }
}

impl<T: IntoTensor> IntoTensor for Result<T, Error> {
    fn into_bound(self, py: Python<'_>) -> PyResult<Bound<'_, PyTensor>> {
        self.map_err(to_py_err)?.into_bound(py)
    }
}

impl<T: IntoTensor> IntoTensor for PyResult<T> {
    fn into_bound(self, py: Python<'_>) -> PyResult<Bound<'_, PyTensor>> {
        self?.into_bound(py)
    }
}

pub fn tensor_of(py: Python<'_>, source: impl IntoTensor) -> PyResult<Bound<'_, PyTensor>> {
    source.into_bound(py)
}

pub fn dlpack<'py>(
    tensor: &Bound<'py, PyTensor>,
    stream: Option<&Bound<'py, PyAny>>,
    max_version: Option<&Bound<'py, PyAny>>,
    dl_device: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let keywords = Keywords { stream, max_version, dl_device, copy };
    dlpack_export::export(tensor.py(), tensor.get(), &keywords).map(Bound::into_any)
}

pub fn device(tensor: &Bound<'_, PyTensor>) -> (i32, i32) {
    let device = tensor.get().tensor().device();
    (device.device_type().code(), device.id())
}

pub fn exchange_api(py: Python<'_>) -> PyResult<Py<PyAny>> {
    exchange_table::capsule_of_producers(py).map(Bound::unbind)
}

pub fn attribute<'py>(
    py: Python<'py>,
    source: impl IntoTensor,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    tensor_of(py, source)?.getattr(name)
}

pub fn call<'py>(
    py: Python<'py>,
    source: impl IntoTensor,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    tensor_of(py, source)?.call_method0(name)
}

pub fn to_array<'py>(
    tensor: &Bound<'py, PyTensor>,
    dtype: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    to_library::to_array(tensor, dtype, copy)
}

/// The buffer of a tensor, which the tensor itself releases.
///
/// # Safety
/// `view` is NULL, or a `Py_buffer` to write to.
pub unsafe fn buffer(
    tensor: PyResult<Bound<'_, PyTensor>>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    let refuse = |error: PyErr| match view.is_null() {
        true => PyBufferError::new_err("a buffer was requested without a Py_buffer to fill"),
        false => {
            // SAFETY: not NULL, so this is the `Py_buffer` that Python passes to the slot. A NULL `obj` shows
            // Python that nothing was exported.
            unsafe { (*view).obj = std::ptr::null_mut() };
            error
        }
    };
    let tensor = tensor.map_err(refuse)?;
    let (this, read_only) = (tensor.get().tensor(), tensor.get().is_read_only());
    // SAFETY: the caller passes Python's argument of the slot: NULL, or a `Py_buffer` to write to.
    unsafe { buffer_export::export(tensor.as_any(), this, read_only, view, flags) }
}
