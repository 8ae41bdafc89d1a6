//! The frameworks whose objects are arrays or tensors: NumPy, PyTorch, JAX, TensorFlow, Paddle.

use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError};
use pyo3::prelude::*;

use super::{Attribute, Dtypes, ImportRules, NO_RULES, State};
use crate::python::classes::attr;
use crate::python::error::beyond_tensors;

pub(super) static NUMPY: ImportRules = ImportRules {
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

pub(super) static TENSORFLOW: ImportRules =
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
