//! The facts about objects of one framework that an import needs: states, copies and exceptions that no protocol
//! reports. The package adds those of columns and images.

use std::sync::OnceLock;

use dlbridge::{DataType, DataTypeCode as Code};
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError};
use pyo3::prelude::*;

use crate::imported::Protocol;
use crate::python::error::beyond_tensors;
use crate::python::objects::attr;

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

static IMPORT_RULES: [&ImportRules; 7] =
    [&NUMPY, &TORCH, &JAX, &TENSORFLOW, &PADDLE, &PYARROW, &COLUMNS];

static PYARROW: ImportRules = ImportRules { packages: &["pyarrow"], ..NO_RULES };

/// The libraries of columns, which the package imports.
static COLUMNS: ImportRules =
    ImportRules { packages: &["polars", "pandas"], protocols: &ARROW_FIRST, ..NO_RULES };

static NUMPY: ImportRules = ImportRules {
    class: Some(("numpy.ma", "MaskedArray")),
    check_before: Some(check_mask),
    ..NO_RULES
};

/// Refuses an array with masked elements: no protocol reports the mask.
fn check_mask(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = object.py();
    let any = attr(object, "mask")?.call_method0(intern!(py, "any"));
    match any.and_then(|any| any.is_truthy()) {
        Ok(false) => return Ok(()),
        // The mask of a record lacks `any`, and no protocol exports records.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => return Ok(()),
        Err(error) if error.is_instance_of::<PyAttributeError>(py) => return Ok(()),
        Err(error) => return Err(error),
        Ok(true) => {}
    }
    Err(PyBufferError::new_err(
        "the array has masked elements, and a tensor cannot say which; fill them with \
         a.filled(value), or take a.data if they do not matter",
    ))
}

/// PyTorch's protocols check neither gradients nor the lazy conjugate and negative bits. `x.data = y` and `x.set_(y)`
/// give a tensor other memory, and a managed tensor that PyTorch exports keeps only the tensor: the memory belongs to
/// the storage, a separate object.
pub static TORCH: ImportRules = ImportRules {
    packages: &["torch"],
    states: &[&[REQUIRES_GRAD], &[IS_CONJ, IS_NEG]],
    storage: Some("untyped_storage"),
    ..NO_RULES
};

const REQUIRES_GRAD: State = State {
    attribute: Attribute::Value("requires_grad"),
    dtypes: Dtypes::Differentiable,
    refused: true,
    reason: "the tensor requires grad, and autograd would not see what is done through the shared \
             memory; call detach() first",
};

const IS_CONJ: State = State {
    attribute: Attribute::Method("is_conj"),
    dtypes: Dtypes::Complex,
    refused: true,
    reason: "the tensor has its conjugate bit set: its values are the conjugates of what is in \
             memory; call resolve_conj() first",
};

const IS_NEG: State = State {
    attribute: Attribute::Method("is_neg"),
    dtypes: Dtypes::All,
    refused: true,
    reason: "the tensor has its negative bit set: its values are the negatives of what is in \
             memory; call resolve_neg() first",
};

pub static JAX: ImportRules = ImportRules {
    packages: &["jax", "jaxlib"],
    same_buffer: |py, package| package == "jaxlib" && has_one_cpu(py),
    ..NO_RULES
};

/// Returns true if JAX has a single CPU device, instead of several with numbers, which a buffer cannot report. Called
/// for the first array only: if the program restarts JAX with several devices, dlbridge does not notice.
fn has_one_cpu(py: Python<'_>) -> bool {
    let count = || -> PyResult<usize> {
        py.import(intern!(py, "jax"))?.call_method1(intern!(py, "devices"), ("cpu",))?.len()
    };
    count().is_ok_and(|count| count == 1)
}

static TENSORFLOW: ImportRules =
    ImportRules { packages: &["tensorflow"], check_before: Some(check_dtype), ..NO_RULES };

/// Refuses dtypes without elements in memory: TensorFlow would abort the process.
fn check_dtype(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = object.py();
    let Some(dtype) = object.getattr_opt(intern!(py, "dtype"))? else { return Ok(()) };
    let name = dtype.getattr_opt(intern!(py, "name"))?;
    let name = name.and_then(|name| name.extract::<String>().ok()).unwrap_or_default();
    match name.as_str() {
        "string" | "variant" | "resource" => Err(beyond_tensors(format!(
            "the tensor's elements have the dtype {name}, whose values are not numbers in memory; \
             convert them first"
        ))),
        _ => Ok(()),
    }
}

pub static PADDLE: ImportRules =
    ImportRules { packages: &["paddle"], states: &[&[STOP_GRADIENT]], ..NO_RULES };

const STOP_GRADIENT: State = State {
    attribute: Attribute::Value("stop_gradient"),
    dtypes: Dtypes::Differentiable,
    refused: false,
    reason: "the tensor has stop_gradient=False, and autograd would not see what is done through \
             the shared memory; call detach() first",
};
