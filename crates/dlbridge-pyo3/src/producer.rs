//! The classes that export a tensor: the functions that the methods of [`producer`](macro@crate::producer) call, and the
//! export through `__dlpack__`. It **reads** the consumer's options, **satisfies** them, and **returns** a capsule.

use std::ffi::c_int;

use dlbridge::{Device, Tensor};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::pyclass::Frozen;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict, PyInt, PyTuple};
use pyo3::{PyClass, ffi};

use crate::capsule;
use crate::import::hub;
use crate::import_options::{expect_bool, wrong_type};
use crate::protocol::dlpack::expect_pair;
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
    P::with_tensor(object, |tensor| export(py, tensor, &keywords))
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

/// The keywords of a call of `__dlpack__`, as passed.
pub struct Keywords<'a, 'py> {
    pub stream: Option<Borrowed<'a, 'py, PyAny>>,
    pub max_version: Option<Borrowed<'a, 'py, PyAny>>,
    pub dl_device: Option<Borrowed<'a, 'py, PyAny>>,
    pub copy: Option<Borrowed<'a, 'py, PyAny>>,
}

/// Exports a tensor for a call of `__dlpack__`.
///
/// The capsule is versioned if the consumer supports version 1 or later. An extension shares memory of the CPU, and leaves
/// all other exports to the package; without it, NumPy makes copies of memory of the CPU. Data of a legacy producer is marked read-only in a versioned capsule, because its
/// producer did not say whether it may be written. A legacy consumer gets it unmarked.
#[inline]
pub fn export<'py>(
    py: Python<'py>,
    exporter: &PyTensor,
    keywords: &Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = ExportOptions::read(keywords, exporter)?;
    let is_here = keywords.stream.is_none() && options.to.device_type().is_host_accessible();
    if !is_here || !options.is_sharable(exporter) {
        return by_package(py, exporter, options, keywords);
    }
    Ok(options.shared(py, exporter)?.into_any())
}

#[cold]
#[inline(never)]
fn by_package<'py>(
    py: Python<'py>,
    exporter: &PyTensor,
    options: ExportOptions,
    keywords: &Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let given = PyDict::new(py);
    match keywords.stream.is_none() && options.is_copied_here(exporter) {
        // The object is an array of NumPy then, which can copy too.
        true => given.set_item("copy", true)?,
        false => hub::require(py, &|| "the package dlbridge makes this export".to_owned())?,
    }
    let Keywords { stream, max_version, dl_device, copy } = *keywords;
    let names = ["stream", "max_version", "dl_device", "copy"];
    for (name, value) in names.into_iter().zip([stream, max_version, dl_device, copy]) {
        if let Some(value) = value {
            given.set_item(name, value)?;
        }
    }
    exporter.to_object(py)?.call_method(intern!(py, "__dlpack__"), (), Some(&given))
}

/// Read: the options of the consumer.
#[derive(Clone, Copy)]
pub struct ExportOptions {
    /// True if the consumer supports versioned capsules.
    pub versioned: bool,
    pub copy: Option<bool>,
    /// The requested device.
    pub to: Device,
}

impl ExportOptions {
    #[inline]
    pub fn read(keywords: &Keywords<'_, '_>, exporter: &PyTensor) -> PyResult<Self> {
        let versioned =
            keywords.max_version.map(|v| major(&v)).transpose()?.is_some_and(|v| v >= 1);
        let copy = keywords.copy.map(|copy| expect_bool("copy", &copy)).transpose()?;
        let to = match keywords.dl_device {
            Some(asked) => {
                expect_pair("dl_device", "None or a tuple of two integers like (1, 0)", &asked)?
            }
            None => exporter.tensor().device(),
        };
        Ok(Self { versioned, copy, to })
    }

    /// Returns true if the consumer gets the exporter's own memory, on its device.
    #[inline]
    pub fn is_sharable(self, exporter: &PyTensor) -> bool {
        self.copy != Some(true)
            && self.to == exporter.tensor().device()
            && !self.is_inexpressible(exporter)
    }

    /// Returns true if an export that is not shared is a copy by the CPU.
    fn is_copied_here(self, exporter: &PyTensor) -> bool {
        let here = [self.to, exporter.tensor().device()] == [Device::CPU; 2];
        here && self.copy != Some(false)
    }

    /// Returns true if the consumer supports only legacy capsules, and they cannot express the data.
    pub fn is_inexpressible(self, exporter: &PyTensor) -> bool {
        let tensor = exporter.tensor();
        !self.versioned && (tensor.is_read_only() || tensor.is_subbyte_padded())
    }

    /// Returns a capsule with the exporter's own memory.
    #[inline]
    pub fn shared<'py>(
        self,
        py: Python<'py>,
        exporter: &PyTensor,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // SAFETY: the managed tensor was just made, and only the capsule gets it.
        unsafe {
            match self.versioned {
                true => capsule::versioned(py, exporter.to_raw()?),
                false => capsule::legacy(py, exporter.to_raw_legacy()?),
            }
        }
    }
}

/// The major version of a `max_version`.
#[inline]
fn major(max_version: &Bound<'_, PyAny>) -> PyResult<i64> {
    // A consumer passes the same tuple in every call. A tuple of exact integers never changes.
    static SEEN: [PyOnceLock<(Py<PyAny>, i64)>; 4] = [const { PyOnceLock::new() }; 4];
    let py = max_version.py();
    for (seen, major) in SEEN.iter().map_while(|seen| seen.get(py)) {
        if max_version.is(seen) {
            return Ok(*major);
        }
    }
    let wrong =
        || wrong_type("max_version", "None or a tuple of two integers like (1, 3)", max_version);
    let tuple = max_version.cast::<PyTuple>().map_err(|_| wrong())?;
    let (major, _minor) = tuple.extract::<(i64, i64)>().map_err(|_| wrong())?;
    if tuple.is_exact_instance_of::<PyTuple>()
        && tuple.iter_borrowed().all(|number| number.is_exact_instance_of::<PyInt>())
        && let Some(free) = SEEN.iter().find(|seen| seen.get(py).is_none())
    {
        let _ = free.set(py, (max_version.clone().unbind(), major));
    }
    Ok(major)
}
