//! The refusal of an argument: what was found, kept until somebody reads it.
//!
//! Code that tries one type of argument after another drops most refusals. So a refusal is a few numbers; its words are made
//! when Python makes the exception.

use dlbridge::{DataType, Device, TensorRef};
use pyo3::PyErrArguments;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use super::checked::OutOfRange;
use super::sequence::Misfit;
use super::take::Expected;
use crate::error::ArgumentError;
use crate::protocol;
use crate::receipt::CopyReason;

/// Why an argument was not taken.
pub(super) enum Refusal {
    /// The object is not a tensor, or an array of NumPy, which is described when the words are made.
    Object(ObjectMismatch),
    /// The tensor or list is another one than was expected.
    Mismatch(Box<Mismatch>),
    /// The object has a protocol that the extension is built without: the exception, which names the feature.
    LeftOut(PyErr),
    /// What a producer raised, or what keeps a tensor that fits from being borrowed.
    Raised(PyErr),
}

/// What was expected, and what came.
pub(super) struct Mismatch {
    pub(super) expected: &'static Expected,
    pub(super) found: Found,
}

/// What was expected, and an object that is something else.
pub(super) struct ObjectMismatch {
    pub(super) expected: &'static Expected,
    pub(super) object: Py<PyAny>,
}

pub(super) enum Found {
    /// A tensor, its extents and strides in one vector, and the differences.
    Tensor {
        dtype: DataType,
        device: Device,
        dims: Vec<i64>,
        unmet: Unmet,
        /// An element that the dtype cannot hold.
        out_of_range: Option<OutOfRange>,
        /// NumPy's name for its elements, if they are times.
        time: Option<String>,
    },
    /// Other elements than times of a unit, in words.
    Other(String),
    /// A list or tuple.
    Sequence { object_type: Py<PyType>, misfit: Misfit },
}

/// How a tensor differs from what was expected.
#[derive(Clone, Copy, Default)]
pub(super) struct Unmet {
    /// The dtype, the extents or the device.
    pub(super) plain: bool,
    pub(super) order: bool,
    /// What the address is a multiple of.
    pub(super) aligned: Option<usize>,
    pub(super) unwritable: Option<Unwritable>,
    pub(super) copied: Option<CopyReason>,
}

/// Why a tensor must not be written.
#[derive(Clone, Copy)]
pub(super) enum Unwritable {
    ReadOnly,
    /// Its producer has no way to say.
    Unknown,
}

impl Unmet {
    pub(super) fn is_empty(&self) -> bool {
        let Self { plain, order, aligned, unwritable, copied } = self;
        !plain && !order && aligned.is_none() && unwritable.is_none() && copied.is_none()
    }
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
        match protocol::is_left_out(&error) {
            true => Self::LeftOut(error),
            false => Self::Raised(error),
        }
    }
}

impl Refusal {
    #[cold]
    pub(super) fn new(expected: &'static Expected, found: Found) -> Self {
        Self::Mismatch(Box::new(Mismatch { expected, found }))
    }

    #[cold]
    pub(super) fn object(expected: &'static Expected, object: &Bound<'_, PyAny>) -> Self {
        Self::Object(ObjectMismatch { expected, object: object.clone().unbind() })
    }

    /// The exception.
    #[cold]
    pub(super) fn into_err(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Object(mismatch) => ArgumentError::Mismatch.new_err_of(py, mismatch),
            Self::Mismatch(mismatch) => ArgumentError::Mismatch.new_err_of(py, Words(mismatch)),
            Self::LeftOut(error) | Self::Raised(error) => error,
        }
    }

    /// The same, of a tensor whose elements are times.
    #[cold]
    pub(super) fn of_times(mut self, name: &str) -> Self {
        if let Self::Mismatch(mismatch) = &mut self
            && let Found::Tensor { time, .. } = &mut mismatch.found
        {
            *time = Some(name.to_owned());
        }
        self
    }

    /// `None` for an object that is another one than was expected, or has a protocol that is left out; and what was raised
    /// otherwise.
    pub(super) fn raised(self) -> PyResult<()> {
        match self {
            Self::Object(_) | Self::Mismatch(_) | Self::LeftOut(_) => Ok(()),
            Self::Raised(error) => Err(error),
        }
    }
}

impl PyErrArguments for ObjectMismatch {
    fn arguments(self, py: Python<'_>) -> Py<PyAny> {
        PyString::new(py, &self.words(py)).into_any().unbind()
    }
}

/// Boxed, so that the exception does not move it.
struct Words(Box<Mismatch>);

impl PyErrArguments for Words {
    fn arguments(self, py: Python<'_>) -> Py<PyAny> {
        PyString::new(py, &self.0.words(py)).into_any().unbind()
    }
}
