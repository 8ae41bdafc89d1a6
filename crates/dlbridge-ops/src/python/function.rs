//! An operator's Python function.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::library::{Exported, Library};
use crate::operator::Operator;

// An operator as a Python function for the arrays of all libraries; `add` makes it. Not a doc comment, which would
// replace the documentation of the operator. `jax.jit` needs weak references to a function: without them it raises, and
// crashes the next time.
#[expect(
    missing_docs,
    reason = "Python shows the documentation of the class in place of the operator's"
)]
#[pyclass(frozen, weakref, module = "dlbridge_ops", name = "Operator")]
pub struct Function {
    pub(super) library: &'static Library,
    pub(super) exported: &'static Exported,
    pub(super) glued: Glued,
}

/// The functions of a framework for an operator, once they are made.
pub(super) struct Glued {
    pub(super) torch: PyOnceLock<(Py<PyAny>, Py<PyAny>)>,
    pub(super) jax: PyOnceLock<Py<PyAny>>,
    /// Set in the first function of a library once PyTorch has all of them.
    pub(super) registered: PyOnceLock<()>,
}

impl Glued {
    pub(super) const fn new() -> Self {
        Self { torch: PyOnceLock::new(), jax: PyOnceLock::new(), registered: PyOnceLock::new() }
    }
}

/// The functions of a library, in its order.
pub(super) fn all(py: Python<'_>, library: &'static Library) -> PyResult<Vec<Py<Function>>> {
    let function = |exported| Py::new(py, Function { library, exported, glued: Glued::new() });
    library.operators.iter().map(function).collect()
}

impl Function {
    pub(super) fn operator(&self) -> &'static Operator {
        self.exported.operator
    }
}
