//! TensorFlow.

use dlbridge::DataType;
use pyo3::prelude::*;

use super::dtypes::{is_complex, is_plain};
use super::framework::{Argument, Behaviour, FRAMEWORK, Framework, Layout, ReadOnly, Request};
use super::import_rules::{ImportRules, NO_RULES};
use crate::error::{beyond_tensors, type_name};

pub(super) static TENSORFLOW: Framework = Framework {
    name: "tensorflow",
    aliases: &["tf"],
    module: "tensorflow",
    function: "experimental.dlpack.from_dlpack",
    argument: Argument::Capsule,
    enter: |function, offer| function.call1((offer.capsule()?,)),
    on_device: Behaviour {
        request: Request::Legacy,
        read_only: ReadOnly::Immutable,
        layout: Layout::C,
        align: 64,
        ..Behaviour::FREE
    },
    immutable: true,
    // TensorFlow accepts less, and then aborts the process in the middle of a computation.
    align_limit: 64,
    takes: |dtype| {
        is_plain(dtype)
            || is_complex(dtype)
            || [DataType::BFLOAT16, DataType::BOOL].contains(&dtype)
    },
    ..FRAMEWORK
};

pub(super) static RULES: ImportRules = ImportRules {
    packages: &["tensorflow"],
    check_before: Some(check_dtype),
    remedy: Some(remedy),
    ..NO_RULES
};

/// What to pass instead of a variable, or of a tensor without values, of TensorFlow or Keras.
fn remedy(object: &Bound<'_, PyAny>) -> Option<String> {
    let name = type_name(object);
    let (package, class) = (name.split('.').next()?, name.rsplit('.').next()?);
    let remedy = match (package, class) {
        ("tensorflow", class) if class.ends_with("Variable") => "pass its value: variable.value()",
        ("keras", "Variable") => "pass its value: variable.value",
        ("tensorflow", "SymbolicTensor") | ("keras", "KerasTensor") => {
            "it stands for elements that are not computed yet: convert it outside of the compiled function or \
             model, or in a function called by tf.py_function"
        }
        _ => return None,
    };
    Some(remedy.to_owned())
}

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
