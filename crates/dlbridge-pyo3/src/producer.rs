//! The classes that export a tensor, and the functions that the methods of [`producer`](macro@crate::producer) call.

use std::ffi::c_int;

use dlbridge::Tensor;
use pyo3::PyClass;
use pyo3::exceptions::PyAttributeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::Frozen;
use pyo3::types::{PyDict, PyTuple};

use crate::import::hub;
use crate::protocol::dlpack_export::{self, Keywords};
use crate::tensor::PyTensor;

/// A class whose objects export a tensor.
///
/// # Safety
/// The constants are true only if what they say holds.
pub unsafe trait Producer: PyClass + Sized {
    /// True if each object keeps one tensor as long as it lives.
    const KEEPS_TENSOR: bool = false;

    /// True if the memory lives as long as the object, so that its address may be given to those who keep the object.
    const GIVES_ADDRESS: bool = false;

    /// Calls a function with the tensor of an object.
    ///
    /// # Errors
    /// Those of the function, and of the class, if it makes the tensor.
    fn with_tensor<R>(
        object: &Bound<'_, Self>,
        f: impl FnOnce(&PyTensor) -> PyResult<R>,
    ) -> PyResult<R>;

    /// The object that the class's exchange table makes of a tensor.
    ///
    /// # Errors
    /// Those of Python, like `MemoryError`.
    fn object(py: Python<'_>, tensor: PyTensor) -> PyResult<Bound<'_, PyAny>> {
        tensor.into_pyobject(py)
    }

    /// Makes the device's default stream wait for the pending writes to a tensor. An extension's data is synchronised with it.
    ///
    /// # Errors
    /// `BufferError` if the driver refuses.
    fn put_in_order(_: Python<'_>, _: &PyTensor) -> PyResult<()> {
        Ok(())
    }
}

/// The results of a function that returns the tensor of an object.
///
/// # Safety
/// `KEPT` is true only for a reference into the object.
pub unsafe trait Source {
    /// True if the object keeps the tensor until code changes the object.
    const KEPT: bool = false;

    /// Calls a function with the tensor.
    ///
    /// # Errors
    /// Those of both functions.
    fn with_tensor<R>(self, f: impl FnOnce(&PyTensor) -> PyResult<R>) -> PyResult<R>;
}

// SAFETY: a reference, which the function returned for a reference to the object.
unsafe impl Source for &PyTensor {
    const KEPT: bool = true;

    fn with_tensor<R>(self, f: impl FnOnce(&PyTensor) -> PyResult<R>) -> PyResult<R> {
        f(self)
    }
}

// SAFETY: `KEPT` is false.
unsafe impl Source for PyTensor {
    fn with_tensor<R>(self, f: impl FnOnce(&PyTensor) -> PyResult<R>) -> PyResult<R> {
        f(&self)
    }
}

// SAFETY: `KEPT` is false.
unsafe impl Source for Tensor {
    fn with_tensor<R>(self, f: impl FnOnce(&PyTensor) -> PyResult<R>) -> PyResult<R> {
        f(&PyTensor::from(self))
    }
}

// SAFETY: `KEPT` is that of the value in the result, which the function returned.
unsafe impl<T: Source, E: Into<PyErr>> Source for Result<T, E> {
    const KEPT: bool = T::KEPT;

    fn with_tensor<R>(self, f: impl FnOnce(&PyTensor) -> PyResult<R>) -> PyResult<R> {
        self.map_err(Into::into)?.with_tensor(f)
    }
}

/// Returns true for a function that returns a tensor which lives as long as the object: one that the object keeps, if no code
/// can replace it because the class is frozen.
pub const fn gives_address<P: PyClass, S: Source>(_: fn(&'static P) -> S) -> bool {
    const fn is_frozen<F: Frozen>() -> bool {
        F::VALUE
    }
    S::KEPT && is_frozen::<P::Frozen>()
}

pub fn dlpack<'py, P: Producer>(
    object: &Bound<'py, P>,
    stream: Option<&Bound<'py, PyAny>>,
    max_version: Option<&Bound<'py, PyAny>>,
    dl_device: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let [stream, max_version, dl_device, copy] =
        [stream, max_version, dl_device, copy].map(|given| given.map(Bound::as_borrowed));
    let keywords = Keywords { stream, max_version, dl_device, copy };
    let py = object.py();
    P::with_tensor(object, |tensor| dlpack_export::export(py, tensor, &keywords))
}

pub fn device<P: Producer>(object: &Bound<'_, P>) -> PyResult<(i32, i32)> {
    P::with_tensor(object, |tensor| Ok(tensor.device_pair()))
}

/// An attribute of the `dlbridge.Tensor`, which objects without the package lack.
pub fn attribute<'py, P: Producer>(
    object: &Bound<'py, P>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    P::with_tensor(object, |tensor| tensor.to_object(object.py()))?.getattr(name)
}

/// As [`attribute`], for an array interface that has the address of the memory: its consumers keep the object alone.
pub fn address<'py, P: Producer>(
    object: &Bound<'py, P>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    if !P::GIVES_ADDRESS {
        return Err(PyAttributeError::new_err(format!(
            "{name}: the object does not keep its memory; a frozen class that keeps a PyTensor has this attribute"
        )));
    }
    P::with_tensor(object, |tensor| {
        tensor.keep_reading()?;
        tensor.to_object(object.py())
    })?
    .getattr(name)
}

/// Calls a method of the `dlbridge.Tensor`.
pub fn call<'py, P: Producer>(
    object: &Bound<'py, P>,
    name: &str,
    arguments: &Bound<'py, PyTuple>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    hub::require(py, &|| format!("{name} is a method of dlbridge.Tensor"))?;
    P::with_tensor(object, |tensor| tensor.to_object(py))?.call_method(name, arguments, keywords)
}

/// The bytes of the elements in C order; without the package, those of a NumPy array.
pub fn bytes<'py, P: Producer>(object: &Bound<'py, P>) -> PyResult<Bound<'py, PyAny>> {
    let tensor = P::with_tensor(object, |tensor| tensor.to_object(object.py()))?;
    // SAFETY: attached, with a live object. The result is a new reference, or NULL with an exception.
    unsafe { Bound::from_owned_ptr_or_err(object.py(), ffi::PyObject_Bytes(tensor.as_ptr())) }
}

/// The buffer of a tensor, which an object of its own releases.
///
/// # Safety
/// `view` is NULL, or a `Py_buffer` to write to.
pub unsafe fn buffer<P: Producer>(
    object: &Bound<'_, P>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    let exported =
        P::with_tensor(object, |tensor| tensor.to_object(object.py())).and_then(|tensor| {
            // SAFETY: attached, with a live object. The caller passes Python's argument of the slot: NULL, which the function
            // refuses, or a `Py_buffer` to write to.
            match unsafe { ffi::PyObject_GetBuffer(tensor.as_ptr(), view, flags) } {
                0 => Ok(()),
                _ => Err(PyErr::fetch(object.py())),
            }
        });
    // SAFETY: the caller promises NULL, or a `Py_buffer` to write to.
    if let (Err(_), Some(view)) = (&exported, unsafe { view.as_mut() }) {
        // It shows Python that nothing was exported.
        view.obj = std::ptr::null_mut();
    }
    exported
}
