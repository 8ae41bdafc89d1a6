//! Small tensors that show how a framework imports.

use std::sync::atomic::{AtomicI64, Ordering};

use dlbridge::{ArcTensor, DataType, DataTypeCode, Tensor};
use pyo3::exceptions::{PyException, PyMemoryError, PyRecursionError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::offer::Offered;
use crate::error::to_py_err;
use crate::frameworks::{Framework, Request};
use crate::import_options::ImportOptions;
use crate::{PyTensor, copies, reexport};

/// The shape of most probes.
pub(super) const SHAPE: [usize; 2] = [2, 3];

/// A framework, and the memory of its probes.
pub(super) struct Probe<'a, 'py> {
    pub(super) framework: &'static Framework,
    pub(super) function: &'a Bound<'py, PyAny>,
    memory: ArcTensor,
}

/// The result of a framework's import of a probe.
pub(super) struct Seen {
    /// True if it describes the same elements in the same memory.
    pub(super) shared: bool,
    /// True if it is marked as read-only, which a legacy capsule cannot express.
    pub(super) read_only: bool,
    pub(super) dtype: DataType,
}

impl<'a, 'py> Probe<'a, 'py> {
    pub(super) fn new(
        framework: &'static Framework,
        function: &'a Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        let bytes = DataType::new(DataTypeCode::UINT, 8, 1);
        let memory = Tensor::zeroed_aligned(bytes, [512], 256).map_err(to_py_err)?;
        Ok(Self { framework, function, memory: memory.into_shared() })
    }

    /// Elements of a dtype that begin `offset` bytes behind a multiple of 256.
    pub(super) fn tensor(
        &self,
        offset: usize,
        (dtype, shape): (DataType, &[usize]),
        read_only: bool,
    ) -> PyResult<Tensor> {
        let count = dtype.itemsize() * shape.iter().product::<usize>();
        let bytes = self.memory.share().slice(0, offset..offset + count).map_err(to_py_err)?;
        reexport::with_shape(&bytes.into_shared(), read_only, (dtype, false), shape)
            .map_err(to_py_err)
    }

    /// The result of the framework's function; `None` if it fails. A signal's exception is passed on.
    pub(super) fn give(
        &self,
        tensor: &Bound<'py, PyTensor>,
        request: Request,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.unless_refused(self.enter(tensor, request))
    }

    /// The result of the framework's function, or its exception.
    pub(super) fn enter(
        &self,
        tensor: &Bound<'py, PyTensor>,
        request: Request,
    ) -> PyResult<Bound<'py, PyAny>> {
        let offered = Offered { tensor, may_copy: true, request };
        (self.framework.enter)(self.function, &offered)
    }

    /// The result of the framework's function for an object that records its request, and the request.
    pub(super) fn ask(
        &self,
        tensor: Tensor,
    ) -> PyResult<(Option<Bound<'py, PyAny>>, Option<Request>)> {
        let py = self.function.py();
        let recorder = Recorder {
            tensor: Py::new(py, PyTensor::from(tensor))?,
            major: AtomicI64::new(NOT_CALLED),
            minor: AtomicI64::new(0),
        };
        let recorder = Bound::new(py, recorder)?;
        let result = self.unless_refused(self.function.call1((&recorder,)))?;
        Ok((result, recorder.get().request()))
    }

    /// Describes the framework's result for a tensor; `None` if it failed, or if the result cannot be imported.
    pub(super) fn look(
        &self,
        result: Option<&Bound<'py, PyAny>>,
        sent: &Tensor,
    ) -> PyResult<Option<Seen>> {
        let Some(result) = result else { return Ok(None) };
        let Some(back) =
            self.unless_refused(PyTensor::import(result, &ImportOptions::default()))?
        else {
            return Ok(None);
        };
        let this = back.get().tensor();
        let steps = |tensor: &Tensor| -> Vec<_> {
            let dims = tensor.shape().iter().zip(tensor.strides());
            dims.filter(|&(&extent, _)| extent > 1).map(|(_, &stride)| stride).collect()
        };
        let shared = this.data().addr() == sent.data().addr()
            && this.shape() == sent.shape()
            && steps(this) == steps(sent);
        Ok(Some(Seen { shared, read_only: this.is_read_only(), dtype: this.dtype() }))
    }

    /// As [`give`](Self::give), and describes the result.
    pub(super) fn try_out(&self, tensor: Tensor, request: Request) -> PyResult<Option<Seen>> {
        let tensor = Bound::new(self.function.py(), PyTensor::from(tensor))?;
        let result = self.give(&tensor, request)?;
        self.look(result.as_ref(), tensor.get().tensor())
    }

    /// `None` for an exception that refuses a tensor. Other exceptions are passed on.
    pub(super) fn unless_refused<T>(&self, result: PyResult<T>) -> PyResult<Option<T>> {
        let py = self.function.py();
        match result {
            Ok(result) => Ok(Some(result)),
            Err(error) if is_refusal(py, &error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns true for an exception that is a statement about the framework. Others may not occur again: signals, and
/// the end of the stack or of the memory, also as the cause of an exception.
pub(super) fn is_refusal(py: Python<'_>, error: &PyErr) -> bool {
    let is_lasting = |error: &PyErr| {
        error.is_instance_of::<PyException>(py)
            && !error.is_instance_of::<PyRecursionError>(py)
            && !error.is_instance_of::<PyMemoryError>(py)
            && !copies::is_interrupt(py, error)
    };
    is_lasting(error) && error.cause(py).is_none_or(|cause| is_lasting(&cause))
}

/// The major version in a [`Recorder`] that was not called.
const NOT_CALLED: i64 = -1;

/// An object with `__dlpack__` that records how a framework calls it.
#[pyclass(frozen)]
struct Recorder {
    tensor: Py<PyTensor>,
    major: AtomicI64,
    minor: AtomicI64,
}

impl Recorder {
    fn request(&self) -> Option<Request> {
        match self.major.load(Ordering::Relaxed) {
            NOT_CALLED => None,
            0 => Some(Request::Legacy),
            major => Some(Request::Versioned(major, self.minor.load(Ordering::Relaxed))),
        }
    }
}

#[pymethods]
impl Recorder {
    #[pyo3(signature = (**keywords))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let max_version = match keywords {
            Some(keywords) => keywords.get_item(intern!(py, "max_version"))?,
            None => None,
        };
        let (major, minor) = match max_version.filter(|version| !version.is_none()) {
            Some(version) => version.extract::<(i64, i64)>()?,
            None => (0, 0),
        };
        self.major.store(major.max(0), Ordering::Relaxed);
        self.minor.store(minor, Ordering::Relaxed);
        self.tensor.bind(py).call_method(intern!(py, "__dlpack__"), (), keywords)
    }

    fn __dlpack_device__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        Ok(self.tensor.bind(py).call_method0(intern!(py, "__dlpack_device__"))?.cast_into()?)
    }
}
