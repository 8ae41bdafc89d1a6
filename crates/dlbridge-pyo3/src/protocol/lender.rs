//! What keeps the memory of an argument, if that is not the argument itself.

use dlbridge::Tensor;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use super::buffer::{Buffer, HeldBuffer};
use super::{Kind, framework_checks};

/// What lends memory.
#[expect(dead_code, reason = "kept for what it owns")]
pub(crate) enum Lender<'py> {
    /// A tensor that was imported.
    Tensor(Tensor),
    /// The same, and the storage to keep with it. Boxed, so that the arguments of all other libraries are not larger.
    Stored(Box<(Tensor, Bound<'py, PyAny>)>),
    /// A copy, which nobody else has.
    Copy(Tensor),
    /// A buffer, of which no tensor is made.
    Buffer(HeldBuffer<'py>),
    /// Times, with NumPy's name for them.
    Times(Box<(Self, &'static str)>),
}

impl Lender<'_> {
    /// Returns true for a copy, which nothing else has.
    pub(crate) fn is_copy(&self) -> bool {
        match self {
            Self::Copy(_) => true,
            Self::Times(times) => times.0.is_copy(),
            _ => false,
        }
    }
}

/// The buffer of an object that says what its `__dlpack__` would, and sooner; `None` for others, and where it
/// is refused: then `__dlpack__` says why.
pub(crate) fn same_buffer<'py>(
    object: &Bound<'py, PyAny>,
    kind: &Kind,
) -> PyResult<Option<HeldBuffer<'py>>> {
    if !cfg!(feature = "buffer") || !kind.same_buffer {
        return Ok(None);
    }
    framework_checks::check_before(object, &kind.checks)?;
    match Buffer::get(object) {
        Ok(buffer) => Ok(Some(HeldBuffer::new(object.py(), buffer))),
        Err(error) if error.is_instance_of::<PyException>(object.py()) => Ok(None),
        Err(error) => Err(error),
    }
}
