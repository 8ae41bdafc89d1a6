//! What the Python package adds to this crate in its own module, which links it. An extension has nothing of it.

use std::sync::OnceLock;

use pyo3::prelude::*;

use crate::PyTensor;
use crate::frameworks::ImportRules;

/// What the package adds.
pub struct Linked {
    /// The tensor of an object of the package's class.
    pub tensor: for<'a> fn(&'a Bound<'_, PyAny>) -> Option<&'a PyTensor>,
    /// The import rules of the frameworks whose protocols only the package reads.
    pub rules: &'static [&'static ImportRules],
}

/// Empty in an extension, which asks the installed package.
static LINKED: OnceLock<&Linked> = OnceLock::new();

/// Makes this module the package's own.
pub fn link(package: &'static Linked) {
    let _ = LINKED.set(package);
}

/// The tensor of an object of the package's class, in the package.
pub fn tensor_of<'a>(object: &'a Bound<'_, PyAny>) -> Option<&'a PyTensor> {
    (LINKED.get()?.tensor)(object)
}

/// The import rules of the package, in the package.
pub(crate) fn rules() -> &'static [&'static ImportRules] {
    LINKED.get().map_or(&[], |package| package.rules)
}
