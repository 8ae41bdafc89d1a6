//! TensorFlow.

use dlbridge::DataType;
use pyo3::prelude::*;

use super::dtypes::{is_complex, is_plain};
use super::framework::{Argument, Behaviour, FRAMEWORK, Framework, Layout, ReadOnly, Request};
use super::import_rules::{ImportRules, NO_RULES};
use crate::error::beyond_tensors;

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

pub(super) static RULES: ImportRules =
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
