//! What an object on the CPU says of itself by a function of C, where its first door would say the same in
//! Python.

use dlbridge::sys::DLPACK_FLAG_BITMASK_IS_COPIED;
use dlbridge::{Device, Tensor, TensorRef};
use pyo3::prelude::*;

use super::buffer::Buffer;
use super::{caveats, kind};

/// What keeps the memory that was lent.
pub(crate) enum Lender {
    /// A tensor that the object's table of C functions gave.
    Tensor(Tensor),
    /// A buffer, which says itself what there is: no tensor is made of it.
    Buffer(Buffer),
}

impl Lender {
    /// The elements, as they lie there; `None` for what no tensor can express.
    pub(crate) fn describe(&self) -> Option<TensorRef<'_>> {
        match self {
            Self::Tensor(tensor) => Some(TensorRef::from(tensor)),
            Self::Buffer(buffer) => buffer.describe(),
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        match self {
            Self::Tensor(tensor) => tensor.is_read_only(),
            Self::Buffer(buffer) => buffer.is_read_only(),
        }
    }
}

/// Asks an object; `None` if there is no such function, or if it says what needs more than that: then the ladder
/// is asked, which also says what is wrong.
pub(crate) fn at_once(object: &Bound<'_, PyAny>) -> PyResult<Option<Lender>> {
    let kind = kind::of(object)?;
    if kind.same_buffer {
        return Ok(Buffer::get(object).ok().map(Lender::Buffer));
    }
    let Some(table) = kind.table else { return Ok(None) };
    let Ok(imported) = table.unsynchronized(object) else { return Ok(None) };
    let tensor = imported.tensor;
    let copied = tensor.flags() & DLPACK_FLAG_BITMASK_IS_COPIED != 0;
    if tensor.device() != Device::CPU || copied {
        return Ok(None);
    }
    caveats::check(object, &kind.caveats, tensor.dtype())?;
    Ok(Some(Lender::Tensor(tensor)))
}
