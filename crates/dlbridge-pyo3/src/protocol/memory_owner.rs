//! The owner of an argument's memory, if the argument's object is not the owner.

use dlbridge::Tensor;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use super::buffer::{Buffer, HeldBuffer};
use super::{TypeInfo, framework_checks};

/// The owner of memory.
#[expect(dead_code, reason = "kept for what it owns")]
pub(crate) enum MemoryOwner<'py> {
    /// A tensor that was imported.
    Tensor(Tensor),
    /// A copy, which nothing else holds.
    Copy(Tensor),
    /// A buffer, which no tensor wraps.
    Buffer(HeldBuffer<'py>),
    /// The storage of the argument's object.
    Storage(Bound<'py, PyAny>),
    /// Times, with NumPy's name for them.
    Times(Box<(Self, &'static str)>),
}

impl MemoryOwner<'_> {
    /// Returns true for a copy.
    pub(crate) fn is_copy(&self) -> bool {
        match self {
            Self::Copy(_) => true,
            Self::Times(times) => times.0.is_copy(),
            _ => false,
        }
    }
}

/// The buffer of an object, if it has the same data as `__dlpack__`; `None` for other objects, and if the object
/// refuses: then `__dlpack__` reports the reason.
pub(crate) fn same_buffer<'py>(
    object: &Bound<'py, PyAny>,
    type_info: &TypeInfo,
) -> PyResult<Option<HeldBuffer<'py>>> {
    if !type_info.same_buffer {
        return Ok(None);
    }
    framework_checks::check_before(object, &type_info.checks)?;
    match Buffer::get(object) {
        Ok(buffer) => Ok(Some(HeldBuffer::new(object.py(), buffer))),
        Err(error) if error.is_instance_of::<PyException>(object.py()) => Ok(None),
        Err(error) => Err(error),
    }
}
