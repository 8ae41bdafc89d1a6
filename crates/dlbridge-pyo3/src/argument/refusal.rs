//! The refusal of an argument: the facts, from which an exception is made later.
//!
//! Code that tries one type of argument after another drops most refusals. So a refusal is a few numbers; its message
//! and exception are only made when it becomes a `PyErr`.

use std::fmt;

use dlbridge::{CopyReason, DataType, Device, Error, TensorRef};
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;

use super::mismatch::Mismatch;
use super::spec::ArgumentSpec;
use crate::import::{self, hub};
use crate::python::error::ErrorClass;
use crate::python::error::is_beyond_tensors;

/// Why an argument was refused. Two words in size, because several functions return it.
pub(super) enum Refusal {
    /// The object is not a tensor, or is a NumPy array, which is described when the message is made.
    Object(&'static ArgumentSpec),
    /// A tensor that does not fit.
    Tensor(Box<RefusedTensor>),
    /// A description of a list that does not fit, or of elements that are not times of a unit.
    Other(Box<(&'static ArgumentSpec, String)>),
    /// A NumPy array with elements that cannot be the argument's; a later import makes the exception.
    Elements(&'static ArgumentSpec),
    /// An exception of an import, or the reason why a tensor that fits cannot be borrowed.
    Raised(Box<PyErr>),
}

/// The demands and a tensor, with its extents and strides in one vector, and the differences.
pub(super) struct RefusedTensor {
    pub(super) spec: &'static ArgumentSpec,
    pub(super) dtype: DataType,
    pub(super) device: Device,
    pub(super) dims: Vec<i64>,
    pub(super) mismatch: Mismatch,
    /// Why the data was copied, if it was.
    pub(super) reason: Option<CopyReason>,
    /// An element that the dtype cannot hold, in words.
    pub(super) element: Option<String>,
    /// NumPy's name for the elements, if they are times.
    pub(super) time: Option<String>,
}

impl RefusedTensor {
    pub(super) fn new(
        spec: &'static ArgumentSpec,
        dtype: DataType,
        device: Device,
        dims: Vec<i64>,
        mismatch: Mismatch,
    ) -> Self {
        Self { spec, dtype, device, dims, mismatch, reason: None, element: None, time: None }
    }

    pub(super) fn of(
        spec: &'static ArgumentSpec,
        tensor: &TensorRef<'_>,
        mismatch: Mismatch,
    ) -> Self {
        let dims = [tensor.shape(), tensor.strides()].concat();
        Self::new(spec, tensor.dtype(), tensor.device(), dims, mismatch)
    }
}

impl From<PyErr> for Refusal {
    fn from(error: PyErr) -> Self {
        Self::Raised(Box::new(error))
    }
}

impl Refusal {
    /// The refusal of a tensor that does not fit.
    #[cold]
    pub(super) fn of(
        spec: &'static ArgumentSpec,
        tensor: &TensorRef<'_>,
        mismatch: Mismatch,
        reason: Option<CopyReason>,
    ) -> Self {
        let found = RefusedTensor::of(spec, tensor, mismatch);
        Self::Tensor(Box::new(RefusedTensor { reason, ..found }))
    }

    /// Makes the exception, for the object that was refused.
    #[cold]
    pub(super) fn into_err(self, object: &Bound<'_, PyAny>) -> PyErr {
        match self {
            Self::Raised(error) => *error,
            _ => self.err(object),
        }
    }

    /// As `into_err`, by reference.
    #[cold]
    fn err(&self, object: &Bound<'_, PyAny>) -> PyErr {
        let py = object.py();
        let message = match self {
            Self::Object(spec) => spec.message_of(object),
            Self::Tensor(tensor) => Ok(tensor.message()),
            Self::Other(found) => Ok(found.0.message_with(&found.1)),
            Self::Elements(spec) => return spec.refusal_of_elements(object).into_err(object),
            Self::Raised(error) => return error.clone_ref(py),
        };
        message.map_or_else(|error| error, |text| ErrorClass::Mismatch.new_err(py, &text))
    }

    /// Adds NumPy's name for the elements to the refusal of a tensor of times.
    #[cold]
    pub(super) fn of_times(mut self, name: &str) -> Self {
        if let Self::Tensor(tensor) = &mut self {
            tensor.time = Some(name.to_owned());
        }
        self
    }

    /// Returns `Ok` for an object that does not fit or that no argument of this extension accepts: tensors lack its
    /// dtype, or the extension is built without its protocol. Raises other errors.
    pub(super) fn raised(self) -> PyResult<()> {
        match self {
            Self::Raised(error) if !is_beyond_tensors(&error) && !hub::is_missing(&error) => {
                Err(*error)
            }
            _ => Ok(()),
        }
    }
}

impl ArgumentSpec {
    /// The refusal of an object that is not a tensor, with the demands; returns other errors unchanged.
    #[cold]
    pub(super) fn no_tensor(&'static self, object: &Bound<'_, PyAny>, error: PyErr) -> Refusal {
        let py = object.py();
        if !error.is_instance_of::<PyTypeError>(py) {
            return Refusal::from(error);
        }
        match import::has_protocol(object) {
            Ok(true) => Refusal::from(error),
            Ok(false) => Refusal::Object(self),
            Err(raised) if !raised.is_instance_of::<PyException>(py) => Refusal::from(raised),
            Err(_) => Refusal::from(error),
        }
    }
}

/// The exception for a tensor that meets the demands, and cannot be borrowed or has elements that are not values of its dtype.
/// Its class adds the name of the argument.
#[cold]
pub(super) fn not_borrowed(error: Error) -> PyErr {
    Python::attach(|py| ErrorClass::Borrowed.new_err(py, &error.to_string()))
}

/// Why extraction of a typed argument failed. `?` converts it to a [`PyErr`].
///
/// The conversion makes the exception and its message, so code that tries several types drops an `ArgumentError` at
/// little cost. `try_extract` also returns an error, for exceptions that no other type would avoid.
///
/// Its `Display` shows the name of the exception's class, and the message.
///
/// ```no_run
/// use dlbridge_pyo3::PyReadonlyTensor;
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn dimensions(x: &Bound<'_, PyAny>) -> PyResult<usize> {
///     if x.extract::<PyReadonlyTensor<'_, f64, 1>>().is_ok() {
///         return Ok(1);
///     }
///     let _matrix: PyReadonlyTensor<'_, f64, 2> = x.extract()?;
///     Ok(2)
/// }
/// ```
///
/// For other error types convert it by `map_err(PyErr::from)`, because an `ArgumentError` borrows the object.
pub struct ArgumentError<'a, 'py> {
    refusal: Refusal,
    object: Borrowed<'a, 'py, PyAny>,
}

impl<'a, 'py> ArgumentError<'a, 'py> {
    pub(super) fn new(refusal: Refusal, object: Borrowed<'a, 'py, PyAny>) -> Self {
        Self { refusal, object }
    }
}

impl From<ArgumentError<'_, '_>> for PyErr {
    #[cold]
    fn from(error: ArgumentError<'_, '_>) -> Self {
        error.refusal.into_err(&error.object)
    }
}

impl fmt::Display for ArgumentError<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.err(&self.object).fmt(f)
    }
}

impl fmt::Debug for ArgumentError<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ArgumentError").field(&self.to_string()).finish()
    }
}

impl std::error::Error for ArgumentError<'_, '_> {}
