//! What the protocols of a framework do not report about its objects: states, copies and exceptions that an import needs
//! to know. The package adds those of columns and images.

mod arrays;
pub(crate) mod import_rules;

pub use self::arrays::{JAX, PADDLE, TORCH};
pub use self::import_rules::{
    ARROW_FIRST, ArrayOf, ArrowRules, Attribute, Check, ImportRules, IsArray, NO_RULES, ORDER,
    State,
};
use crate::linked;

/// The import rules of the frameworks that need some. Those of the package come first.
pub(crate) fn import_rules() -> impl Iterator<Item = &'static ImportRules> {
    linked::rules().iter().copied().chain(IMPORT_RULES)
}

static IMPORT_RULES: [&ImportRules; 7] = [
    &arrays::NUMPY,
    &arrays::TORCH,
    &arrays::JAX,
    &arrays::TENSORFLOW,
    &arrays::PADDLE,
    &PYARROW,
    &COLUMNS,
];

static PYARROW: ImportRules = ImportRules { packages: &["pyarrow"], ..NO_RULES };

/// The libraries of columns, which the package imports.
static COLUMNS: ImportRules =
    ImportRules { packages: &["polars", "pandas"], protocols: &ARROW_FIRST, ..NO_RULES };
