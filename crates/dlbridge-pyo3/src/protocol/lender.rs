//! What keeps the memory of an argument, if that is not the argument itself.

use dlbridge::Tensor;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use super::buffer::Buffer;
use super::{caveats, kind};

/// What lends memory.
#[expect(dead_code, reason = "kept for what it owns")]
pub(crate) enum Lender {
    /// A tensor that was imported.
    Tensor(Tensor),
    /// A buffer, of which no tensor is made.
    Buffer(Buffer),
}

/// The buffer of an object that says what its `__dlpack__` would, and sooner; `None` for others, and where it
/// is refused: then `__dlpack__` says why.
pub(crate) fn same_buffer(object: &Bound<'_, PyAny>) -> PyResult<Option<Buffer>> {
    let kind = kind::of(object)?;
    if !kind.same_buffer {
        return Ok(None);
    }
    caveats::check_before(object, &kind.caveats)?;
    match Buffer::get(object) {
        Ok(buffer) => Ok(Some(buffer)),
        Err(error) if error.is_instance_of::<PyException>(object.py()) => Ok(None),
        Err(error) => Err(error),
    }
}
