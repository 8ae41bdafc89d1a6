//! The limit of imports within imports.

use std::cell::Cell;

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;

/// Stops a producer that imports itself again and again. Python's own limit counts calls, and the calls of an import
/// use more stack than it expects.
pub(crate) struct Depth;

thread_local! {
    static DEPTH: Cell<u8> = const { Cell::new(0) };
}

impl Depth {
    /// Real wrappers of wrappers are a few levels deep.
    const MAX: u8 = 24;

    pub(crate) fn enter() -> PyResult<Self> {
        DEPTH.with(|depth| match depth.get() {
            Self::MAX => Err(PyRecursionError::new_err(
                "imports are nested too deeply; a producer's \
                 __dlpack__ must not import the producer itself",
            )),
            count => {
                depth.set(count + 1);
                Ok(Self)
            }
        })
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}
