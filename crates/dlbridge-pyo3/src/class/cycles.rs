//! Reports to Python's garbage collector the objects that are freed together with a tensor.
//!
//! - **Sole.** An object is reported only if every handle between it and the tensor is the only one. The collector
//!   treats reported references as those that a cycle would lose, and would clear an object that something else still
//!   holds.
//!
//! The class does not implement `__clear__`: code that reaches a tensor while the collector clears a cycle finds its
//! memory valid. So the collector must break the cycle at another object. It collects a cycle only if every object in
//! it reports its references, and one of them can be cleared, such as an instance of a Python class or a list. A
//! NumPy array of objects reports no references, and a `memoryview` cannot be cleared while its buffer is exported.

use dlbridge::ArcTensor;
use pyo3::{PyTraverseError, PyVisit};

use crate::interpreter::PyOwner;
use crate::keepalive::Export;
use crate::numpy;
use crate::protocol::buffer::Buffer;

/// Reports the object that keeps the memory of a tensor, if that object is freed with it (Sole).
///
/// Handles are cloned by attached threads, and the collector runs attached too: a count of one stays one during the
/// traversal.
pub(super) fn traverse(mut tensor: &ArcTensor, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
    while tensor.is_sole() {
        // SAFETY: no element is accessed through the owner.
        let (object, buffer, shared, export) = unsafe {
            (
                tensor.owner_ref::<PyOwner>(),
                tensor.owner_ref::<Buffer>(),
                tensor.owner_ref::<ArcTensor>(),
                tensor.owner_ref::<Export>(),
            )
        };
        if let Some(object) = object {
            return object.traverse(visit);
        }
        if let Some(buffer) = buffer {
            return buffer.traverse(visit);
        }
        let Some(source) = shared.or_else(|| export.map(Export::tensor)) else {
            return numpy::array::traverse(tensor, visit);
        };
        tensor = source;
    }
    Ok(())
}
