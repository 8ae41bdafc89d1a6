//! JAX.

use dlbridge::{DataType, DataTypeCode as Code};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::dtypes::is_rare;
use super::framework::{Behaviour, FRAMEWORK, Framework, Layout, ReadOnly, Request};
use super::import_rules::{ImportRules, NO_RULES};
use crate::classes::is_instance;
use crate::error::{is_absent, type_name};

pub(super) static JAX: Framework = Framework {
    name: "jax",
    module: "jax.dlpack",
    classes: Some("jaxlib"),
    on_device: Behaviour {
        request: Request::Legacy,
        read_only: ReadOnly::Immutable,
        layout: Layout::Compact,
        align: 64,
        ..Behaviour::FREE
    },
    immutable: true,
    takes: |dtype| !dtype.is_subbyte() && !is_rare(dtype),
    settings,
    ..FRAMEWORK
};

/// Refuses elements that JAX would cut to 32 bits without an error, as it does by default.
fn settings(py: Python<'_>, dtype: DataType) -> PyResult<Option<String>> {
    let wide = matches!(
        (dtype.code(), dtype.bits()),
        (Code::INT | Code::UINT | Code::FLOAT, 64) | (Code::COMPLEX, 128)
    );
    if !wide {
        return Ok(None);
    }
    let jax = match py.import(intern!(py, "jax")) {
        Err(error) if is_absent(&error, py, "jax")? => return Ok(None),
        jax => jax?,
    };
    let config = jax.getattr(intern!(py, "config"))?;
    if config.getattr(intern!(py, "jax_enable_x64"))?.is_truthy()? {
        return Ok(None);
    }
    Ok(Some(format!(
        "jax would narrow {dtype}, which changes the values; call \
         jax.config.update('jax_enable_x64', True), or convert the elements first"
    )))
}

pub(super) static RULES: ImportRules = ImportRules {
    packages: &["jax", "jaxlib"],
    explain: Some(|object| gone(object).map(PyBufferError::new_err)),
    remedy: Some(|object| {
        let has_keys = type_name(object).ends_with(".PRNGKeyArray");
        has_keys.then(|| "pass the integers of the keys: jax.random.key_data(keys)".to_owned())
    }),
    same_buffer: |py, package| package == "jaxlib" && has_one_cpu(py),
    ..NO_RULES
};

/// Returns why an array lacks elements in memory, or `None` if no reason is found.
fn gone(object: &Bound<'_, PyAny>) -> Option<&'static str> {
    let py = object.py();
    if is_instance(object, intern!(py, "jax.core"), intern!(py, "Tracer")).ok()? {
        return Some(
            "the array is a tracer of JAX, which stands for elements that are not computed yet; convert \
             it outside of the transformed function, or in a function called by jax.pure_callback",
        );
    }
    let is_deleted =
        object.call_method0(intern!(py, "is_deleted")).and_then(|deleted| deleted.is_truthy());
    is_deleted.unwrap_or(false).then_some(
        "the array was deleted, or donated to a compiled function, so its memory is gone; convert \
         it before that, or make a new one",
    )
}

/// Returns true if JAX has a single CPU device, instead of several with numbers, which a buffer cannot report. Called
/// for the first array only: if the program restarts JAX with several devices, dlbridge does not notice.
fn has_one_cpu(py: Python<'_>) -> bool {
    let count = || -> PyResult<usize> {
        py.import(intern!(py, "jax"))?.call_method1(intern!(py, "devices"), ("cpu",))?.len()
    };
    count().is_ok_and(|count| count == 1)
}
