//! The reason why a list does not fit, and the position.

use std::fmt::Write;

use dlbridge::{DataType, TensorRef};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple, PyType};

use crate::error::{name_of, with_article};

/// The deepest nesting of lists, as in NumPy: deeper lists could overflow a thread's stack.
pub(super) const MAX_DEPTH: usize = 64;

/// Why a list does not fit an argument.
pub(super) enum Misfit {
    TooDeep,
    Shape(Vec<usize>),
    /// Lists cannot be converted to the dtype.
    NoElements(DataType),
    /// An item does not fit a dtype.
    Item(DataType, Box<Item>),
}

impl Misfit {
    /// The words for the message, after the type of the list.
    pub(super) fn words(&self, py: Python<'_>) -> PyResult<String> {
        Ok(match self {
            Self::TooDeep => format!(" that is nested more than {MAX_DEPTH} deep"),
            Self::Shape(shape) => format!(" of shape {shape:?}"),
            Self::NoElements(dtype) => format!(", and lists do not become tensors of {dtype}"),
            Self::Item(dtype, item) => format!(", but {}", item.words(py, &dtype.to_string())?),
        })
    }
}

/// Why a list does not become a tensor.
pub(super) enum Fault {
    /// Something in the list does not fit.
    Item(Box<Item>),
    /// An exception of Python code. Boxed, so that the result of reading an item fits into registers.
    Raised(Box<PyErr>),
}

/// An item that does not fit, and its position.
pub(super) struct Item {
    /// The indices, the last one first.
    index: Vec<usize>,
    problem: Problem,
}

enum Problem {
    NotANumber(Py<PyType>),
    /// A float for an integer, or similar.
    WrongKind(Py<PyType>),
    OutOfRange(Py<PyAny>),
    /// A list where a number is expected.
    TooDeep(Py<PyType>),
    /// An object that is not a list, where a list of this length is expected.
    NotAList(Py<PyType>, usize),
    /// A list's length, and the length of the first list at its depth.
    Ragged(usize, usize),
    /// A tensor that differs from its siblings, and the expected extents.
    Tensor(String, Vec<usize>),
    /// An object with a protocol, and the exception of its import.
    Refused(Py<PyType>, PyErr),
    Changed,
}

impl From<PyErr> for Fault {
    fn from(error: PyErr) -> Self {
        Self::Raised(Box::new(error))
    }
}

impl Fault {
    fn new(problem: Problem) -> Self {
        Self::Item(Box::new(Item { index: Vec::new(), problem }))
    }

    #[cold]
    pub(super) fn not_a_number(item: &Bound<'_, PyAny>) -> Self {
        match is_list(item) {
            true => Self::new(Problem::TooDeep(item.get_type().unbind())),
            false => Self::new(Problem::NotANumber(item.get_type().unbind())),
        }
    }

    #[cold]
    pub(super) fn wrong_kind(item: &Bound<'_, PyAny>) -> Self {
        Self::new(Problem::WrongKind(item.get_type().unbind()))
    }

    #[cold]
    pub(super) fn out_of_range(item: &Bound<'_, PyAny>) -> Self {
        Self::new(Problem::OutOfRange(item.clone().unbind()))
    }

    #[cold]
    pub(super) fn not_a_list(item: &Bound<'_, PyAny>, extent: usize) -> Self {
        Self::new(Problem::NotAList(item.get_type().unbind(), extent))
    }

    #[cold]
    pub(super) fn ragged(found: usize, extent: usize) -> Self {
        Self::new(Problem::Ragged(found, extent))
    }

    #[cold]
    pub(super) fn tensor(tensor: &TensorRef<'_>, extents: &[usize]) -> Self {
        let (dtype, shape, device) = (tensor.dtype(), tensor.shape(), tensor.device());
        let found = format!("a tensor {dtype}{shape:?} on {device}");
        Self::new(Problem::Tensor(found, extents.to_vec()))
    }

    #[cold]
    pub(super) fn refused(item: &Bound<'_, PyAny>, error: PyErr) -> Self {
        Self::new(Problem::Refused(item.get_type().unbind(), error))
    }

    /// Returns true for an item that may be a tensor.
    #[cold]
    pub(super) fn is_not_a_number(&self) -> bool {
        matches!(self, Self::Item(item) if matches!(item.problem, Problem::NotANumber(_)))
    }

    #[cold]
    pub(super) fn changed() -> Self {
        Self::new(Problem::Changed)
    }

    /// The fault of an item in the second pass over a list. If the first pass did not find it, the list has changed
    /// since.
    ///
    /// `fits` is true if the numbers fitted in the first pass.
    #[cold]
    pub(super) fn in_second_pass(mut self, fits: bool) -> Self {
        if let Self::Item(item) = &mut self {
            let is_change = match item.problem {
                Problem::NotANumber(_)
                | Problem::TooDeep(_)
                | Problem::NotAList(..)
                | Problem::Ragged(..) => true,
                Problem::WrongKind(_) => fits,
                _ => false,
            };
            if is_change {
                item.problem = Problem::Changed;
            }
        }
        self
    }

    /// The fault of an item of a list that itself has this index.
    #[cold]
    pub(super) fn within(mut self, index: usize) -> Self {
        if let Self::Item(item) = &mut self {
            item.index.push(index);
        }
        self
    }
}

impl Item {
    pub(super) fn is_change(&self) -> bool {
        matches!(self.problem, Problem::Changed)
    }

    /// The words for the message, for elements that are converted to a dtype.
    pub(super) fn words(&self, py: Python<'_>, dtype: &str) -> PyResult<String> {
        let mut place = String::new();
        for index in self.index.iter().rev() {
            let _ = write!(place, "[{index}]");
        }
        let place =
            if place.is_empty() { "the list".to_owned() } else { format!("element {place}") };
        let name = |found: &Py<PyType>| with_article(&name_of(found.bind(py)));
        Ok(match &self.problem {
            Problem::NotANumber(found) => {
                format!("{place} is {}, which is not a number; convert it first", name(found))
            }
            Problem::WrongKind(found) => {
                format!("{place} is {}, which {dtype} cannot hold; convert it first", name(found))
            }
            Problem::OutOfRange(item) => {
                // More digits do not help a reader, and Python refuses to write thousands of them.
                let number = text_of(item.bind(py))?.filter(|number| number.len() <= 40);
                let number = number.unwrap_or_else(|| "a larger number".to_owned());
                format!("{place} is {number}, which is out of range for {dtype}")
            }
            Problem::TooDeep(found) => {
                format!("{place} is {} where a number is expected", name(found))
            }
            Problem::NotAList(found, extent) => {
                format!("{place} is {} where a list of {extent} is expected", name(found))
            }
            Problem::Ragged(found, extent) if !self.index.is_empty() => {
                let first = "[0]".repeat(self.index.len());
                format!(
                    "{place} has length {found}, but element {first} has length {extent}; give both the same length"
                )
            }
            Problem::Tensor(found, extents) => {
                format!("{place} is {found} where numbers of shape {extents:?} on cpu are expected")
            }
            Problem::Refused(found, error) => {
                let reason = text_of(error.value(py))?.unwrap_or_default();
                format!("{place} is {} that cannot be imported: {reason}", name(found))
            }
            // The outermost list can only differ from its own earlier length.
            Problem::Ragged(..) | Problem::Changed => {
                format!("{place} changed while it was read; do not change a list meanwhile")
            }
        })
    }
}

/// The text of an object; `None` if that fails. Exceptions that programs do not handle, such as `KeyboardInterrupt`,
/// are raised.
fn text_of(object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    match object.str() {
        Ok(text) => Ok(Some(text.to_string_lossy().into_owned())),
        Err(error) if error.is_instance_of::<PyException>(object.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns true for a list, tuple or range, including subclasses of list and tuple.
pub(super) fn is_list(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyList>()
        || object.is_instance_of::<PyTuple>()
        || object.is_exact_instance_of::<pyo3::types::PyRange>()
}
