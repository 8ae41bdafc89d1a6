//! Reports to Python's garbage collector the objects that are freed together with a tensor.
//!
//! - **Sole.** An object is reported only if every handle between it and the tensor is the only one. The collector
//!   treats reported references as those that a cycle would lose, and would clear an object that something else still
//!   holds.
//!
//! An import that never reports an object is not known to the collector, which then does not visit it.
//!
//! The class does not implement `__clear__`: code that reaches a tensor while the collector clears a cycle finds its
//! memory valid. So the collector must break the cycle at another object. It collects a cycle only if every object in
//! it reports its references, and one of them can be cleared, such as an instance of a Python class or a list. A
//! NumPy array of objects reports no references, and a `memoryview` cannot be cleared while its buffer is exported.

use dlbridge::ArcTensor;
use pyo3::{PyTraverseError, PyVisit};

use dlbridge_pyo3::interpreter::PyOwner;
use dlbridge_pyo3::numpy;
use dlbridge_pyo3::protocol::buffer::Buffer;

/// Reports the object that keeps the memory of a tensor, if that object is freed with it (Sole).
///
/// Handles are cloned by attached threads, and the collector runs attached too: a count of one stays one during the
/// traversal.
pub(crate) fn traverse(mut tensor: &ArcTensor, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
    while tensor.is_sole() {
        // SAFETY: no element is accessed through the owner.
        let (object, buffer, shared) = unsafe {
            (
                tensor.owner_ref::<PyOwner>(),
                tensor.owner_ref::<Buffer>(),
                tensor.owner_ref::<ArcTensor>(),
            )
        };
        if let Some(object) = object {
            return object.traverse(visit);
        }
        if let Some(buffer) = buffer {
            return buffer.traverse(visit);
        }
        let Some(source) = shared else {
            return numpy::array::traverse(tensor, visit);
        };
        tensor = source;
    }
    Ok(())
}

/// Returns true if [`traverse`] reports an object, now or when the tensor has fewer handles.
pub(crate) fn may_report(tensor: &ArcTensor) -> bool {
    // SAFETY: no element is accessed through the owner.
    let owner_is_known = unsafe {
        tensor.owner_ref::<PyOwner>().is_some()
            || tensor.owner_ref::<Buffer>().is_some()
            || tensor.owner_ref::<ArcTensor>().is_some()
    };
    owner_is_known || numpy::array::is_reported(tensor)
}
