//! Shows Python's garbage collector the objects that are freed when a tensor is freed.
//!
//! - **Sole.** An object is shown only where every handle between it and the tensor is the only one. The collector takes what it is
//!   shown for the references that a cycle would lose, and would clear an object that something else still holds.
//!
//! The class does not implement `__clear__`: code that reaches a tensor while a cycle is taken apart finds its memory valid. So the
//! collector breaks the cycle at another object: it collects a cycle only if every object in it shows its references, and one that can be
//! cleared is among them, such as an instance of a Python class or a list. A NumPy array of objects shows no references, and a
//! `memoryview` cannot be cleared while its buffer is exported.

use std::sync::Arc;

use dlbridge::Tensor;
use pyo3::{PyTraverseError, PyVisit};

use crate::interpreter::PyOwner;
use crate::keepalive::Export;
use crate::numpy;
use crate::protocol::buffer::Buffer;

/// Shows the collector the object that keeps the memory of a tensor, if that object is freed with it (Sole).
///
/// Handles are cloned attached, and the collector runs attached too: a count of one stays one while it looks.
pub(super) fn traverse(
    mut tensor: &Arc<Tensor>,
    visit: &PyVisit<'_>,
) -> Result<(), PyTraverseError> {
    while Arc::strong_count(tensor) == 1 {
        // SAFETY: no element is accessed through the owner.
        let (object, buffer, lent, export) = unsafe {
            (
                tensor.owner_ref::<PyOwner>(),
                tensor.owner_ref::<Buffer>(),
                tensor.owner_ref::<Arc<Tensor>>(),
                tensor.owner_ref::<Export>(),
            )
        };
        if let Some(object) = object {
            return object.traverse(visit);
        }
        if let Some(buffer) = buffer {
            return buffer.traverse(visit);
        }
        let Some(source) = lent.or_else(|| export.map(Export::tensor)) else {
            return numpy::array::traverse(tensor, visit);
        };
        tensor = source;
    }
    Ok(())
}
