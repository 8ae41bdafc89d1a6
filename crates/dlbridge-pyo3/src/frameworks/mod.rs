//! The facts about objects of one framework that an import needs: states, copies and exceptions that no protocol
//! reports. The package adds those of columns and images.

mod arrays;

use std::sync::OnceLock;

use dlbridge::{DataType, DataTypeCode as Code};
use pyo3::prelude::*;

pub use self::arrays::{JAX, PADDLE, TORCH};
use crate::imported::Protocol;

/// The protocols of most objects, in trial order. `__dlpack__` returns a legacy capsule by
/// itself, if the producer lacks versioned ones.
pub const ORDER: [Protocol; 7] = [
    Protocol::ExchangeApi,
    Protocol::Dlpack,
    Protocol::CudaArrayInterface,
    Protocol::ArrayInterface,
    Protocol::ArrayStruct,
    Protocol::Buffer,
    Protocol::Arrow,
];

/// The order for columns: polars and pandas look up attributes that they lack in Python code, which takes microseconds.
pub const ARROW_FIRST: [Protocol; 7] = [
    Protocol::Arrow,
    Protocol::ExchangeApi,
    Protocol::Dlpack,
    Protocol::CudaArrayInterface,
    Protocol::ArrayInterface,
    Protocol::ArrayStruct,
    Protocol::Buffer,
];

/// The facts about the objects of a framework. `protocol/framework_checks.rs` and the protocols apply them.
pub struct ImportRules {
    /// The packages of its classes, if they raise other exceptions than the standard's for data that they cannot
    /// export.
    pub packages: &'static [&'static str],
    /// The module and name of a class: the functions below then apply to that class and its subclasses, otherwise to
    /// all classes of the packages.
    pub class: Option<(&'static str, &'static str)>,
    /// States that forbid an import. A group applies to every type that has its attributes, in any package.
    pub states: &'static [&'static [State]],
    /// The method that returns the present owner of the memory, for types that may replace their memory.
    pub storage: Option<&'static str>,
    /// Refuses an object for a state that must be checked before an import through any protocol.
    pub check_before: Option<Check>,
    /// Returns true if the buffer of an object has the same data as its `__dlpack__`, for the package of its type.
    pub same_buffer: fn(py: Python<'_>, package: &str) -> bool,
    /// The protocols of its objects, in trial order.
    pub protocols: &'static [Protocol],
}

/// Refuses an object.
pub type Check = fn(&Bound<'_, PyAny>) -> PyResult<()>;

impl ImportRules {
    /// Returns true if a package is one of the framework's.
    pub fn is_of(&self, package: &str) -> bool {
        self.packages.contains(&package)
    }
}

/// A state in which the bytes of a tensor are not its values, or that makes autograd miss writes.
pub struct State {
    pub attribute: Attribute,
    /// The dtypes that can be in this state.
    pub dtypes: Dtypes,
    /// The object is refused if the attribute has this value.
    pub refused: bool,
    /// The message of the refusal.
    pub reason: &'static str,
}

/// A boolean attribute, or a method without arguments that returns a boolean.
#[derive(Clone, Copy)]
pub enum Attribute {
    Value(&'static str),
    Method(&'static str),
}

/// A group of dtypes.
#[derive(Clone, Copy)]
pub enum Dtypes {
    All,
    Complex,
    /// Dtypes that can have a gradient: not integers and not booleans.
    Differentiable,
}

impl Dtypes {
    pub fn contain(self, dtype: DataType) -> bool {
        match self {
            Self::All => true,
            Self::Complex => dtype.code() == Code::COMPLEX,
            Self::Differentiable => !matches!(dtype.code(), Code::INT | Code::UINT | Code::BOOL),
        }
    }
}

pub const NO_RULES: ImportRules = ImportRules {
    packages: &[],
    class: None,
    states: &[],
    storage: None,
    check_before: None,
    same_buffer: |_, _| false,
    protocols: &ORDER,
};

/// The import rules of the frameworks that need some. Those of the package come first.
pub(crate) fn import_rules() -> impl Iterator<Item = &'static ImportRules> {
    ALL_RULES.get().map_or(&IMPORT_RULES[..], |rules| rules).iter().copied()
}

/// These rules in the package; unset in an extension.
static ALL_RULES: OnceLock<Vec<&'static ImportRules>> = OnceLock::new();

/// Adds the import rules of the frameworks whose protocols only the package reads.
pub fn add_rules(rules: &'static [&'static ImportRules]) {
    let _ = ALL_RULES.set([rules, &IMPORT_RULES].concat());
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
