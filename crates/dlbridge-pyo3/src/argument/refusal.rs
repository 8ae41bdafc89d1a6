//! The refusal of an argument: the facts, from which an exception is made later.
//!
//! Code that tries one type of argument after another drops most refusals. So a refusal is a few numbers; its message
//! and exception are only made when it becomes a `PyErr`.

use std::fmt;

use dlbridge::{DataType, Device, TensorRef};
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::convert::OutOfRange;
use super::fault::Misfit;
use super::spec::ArgumentSpec;
use super::unmet::Unmet;
use crate::error::ErrorClass;
use crate::error::is_beyond_tensors;
use crate::protocol::left_out;

/// Why an argument was refused. Two words in size, because several functions return it.
pub(super) enum Refusal {
    /// The object is not a tensor, or is a NumPy array, which is described when the message is made.
    Object(&'static ArgumentSpec),
    /// A tensor or list that does not fit.
    Mismatch(Box<Refused>),
    /// A NumPy array with elements that cannot be the argument's; a later import makes the exception.
    Elements(&'static ArgumentSpec),
    /// No argument of this extension accepts the object: tensors lack its dtype, or the extension is built without
    /// its protocol. Holds the exception that says so.
    Unimportable(Box<PyErr>),
    /// An exception of a producer, or the reason why a tensor that fits cannot be borrowed.
    Raised(Box<PyErr>),
}

/// The demands, and the refused object.
pub(super) struct Refused {
    pub(super) spec: &'static ArgumentSpec,
    pub(super) found: Found,
}

pub(super) enum Found {
    /// A tensor, with its extents and strides in one vector, and the differences.
    Tensor {
        dtype: DataType,
        device: Device,
        dims: Vec<i64>,
        unmet: Unmet,
        /// An element that the dtype cannot hold.
        out_of_range: Option<OutOfRange>,
        /// NumPy's name for the elements, if they are times.
        time: Option<String>,
    },
    /// A description of elements that are not times of a unit.
    Other(String),
    /// A list or tuple.
    Sequence { object_type: Py<PyType>, misfit: Misfit },
}

impl Found {
    pub(super) fn tensor(tensor: &TensorRef<'_>, unmet: Unmet) -> Self {
        let dims = [tensor.shape(), tensor.strides()].concat();
        let (dtype, device) = (tensor.dtype(), tensor.device());
        Self::Tensor { dtype, device, dims, unmet, out_of_range: None, time: None }
    }
}

impl From<PyErr> for Refusal {
    fn from(error: PyErr) -> Self {
        match is_beyond_tensors(&error) || left_out::is_left_out(&error) {
            true => Self::Unimportable(Box::new(error)),
            false => Self::Raised(Box::new(error)),
        }
    }
}

impl Refusal {
    #[cold]
    pub(super) fn new(spec: &'static ArgumentSpec, found: Found) -> Self {
        Self::Mismatch(Box::new(Refused { spec, found }))
    }

    /// Makes the exception, for the object that was refused.
    #[cold]
    pub(super) fn into_err(self, object: &Bound<'_, PyAny>) -> PyErr {
        match self {
            Self::Unimportable(error) | Self::Raised(error) => *error,
            _ => self.err(object),
        }
    }

    /// As `into_err`, by reference.
    #[cold]
    fn err(&self, object: &Bound<'_, PyAny>) -> PyErr {
        let py = object.py();
        let words = match self {
            Self::Object(spec) => spec.words_of(object),
            Self::Mismatch(mismatch) => mismatch.words(py),
            Self::Elements(spec) => {
                return spec.refusal_of_elements(object).into_err(object);
            }
            Self::Unimportable(error) | Self::Raised(error) => return error.clone_ref(py),
        };
        words.map_or_else(|error| error, |words| ErrorClass::Mismatch.new_err(py, &words))
    }

    /// Adds NumPy's name for the elements to the refusal of a tensor of times.
    #[cold]
    pub(super) fn of_times(mut self, name: &str) -> Self {
        if let Self::Mismatch(mismatch) = &mut self
            && let Found::Tensor { time, .. } = &mut mismatch.found
        {
            *time = Some(name.to_owned());
        }
        self
    }

    /// Returns `Ok` for an object that does not fit or that no argument accepts, and raises other errors.
    pub(super) fn raised(self) -> PyResult<()> {
        match self {
            Self::Object(_) | Self::Mismatch(_) | Self::Elements(_) | Self::Unimportable(_) => {
                Ok(())
            }
            Self::Raised(error) => Err(*error),
        }
    }
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
/// Where `?` does not apply, convert explicitly. That is also necessary for other error types, because an
/// `ArgumentError` borrows the object:
///
/// ```no_run
/// use dlbridge_pyo3::PyReadonlyTensor;
/// use pyo3::prelude::*;
///
/// fn vector<'py>(x: &Bound<'py, PyAny>) -> PyResult<PyReadonlyTensor<'py, f64, 1>> {
///     x.extract().map_err(PyErr::from)
/// }
///
/// fn sum(x: &Bound<'_, PyAny>) -> Result<f64, Box<dyn std::error::Error>> {
///     let x: PyReadonlyTensor<'_, f64, 1> = x.extract().map_err(PyErr::from)?;
///     Ok(x.iter().sum())
/// }
/// ```
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
