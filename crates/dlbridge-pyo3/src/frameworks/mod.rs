//! What the protocols of a framework do not report about its objects: states, copies and exceptions that an import needs
//! to know. The profiles of frameworks as consumers are in `to_library/`.

mod arrays;
mod arrow;
mod import_rules;
pub(crate) mod pandas;

use pyo3::prelude::*;

pub(crate) use import_rules::{ArrayOf, ArrowRules, Attribute, ImportRules, ORDER, State};

/// The import rules of the frameworks that need some.
#[cfg(feature = "hub")]
pub(crate) static IMPORT_RULES: [&ImportRules; 9] = [
    &arrays::NUMPY,
    &arrays::TORCH,
    &arrays::JAX,
    &arrays::TENSORFLOW,
    &arrays::PADDLE,
    &arrow::PYARROW,
    &arrow::POLARS,
    &pandas::PANDAS,
    &arrow::PILLOW,
];

/// The import rules of an extension, which asks the package for columns and images.
#[cfg(not(feature = "hub"))]
pub(crate) static IMPORT_RULES: [&ImportRules; 7] = [
    &arrays::NUMPY,
    &arrays::TORCH,
    &arrays::JAX,
    &arrays::TENSORFLOW,
    &arrays::PADDLE,
    &arrow::PYARROW,
    &COLUMNS,
];

/// The libraries of columns, for an extension.
#[cfg(not(feature = "hub"))]
static COLUMNS: ImportRules = ImportRules {
    packages: &["polars", "pandas"],
    protocols: &import_rules::ARROW_FIRST,
    ..import_rules::NO_RULES
};

/// The advice for an object of a framework that has no protocol, in the package.
pub(crate) fn remedy(object: &Bound<'_, PyAny>) -> Option<String> {
    IMPORT_RULES.iter().find_map(|rules| rules.remedy.and_then(|remedy| remedy(object)))
}
