//! JAX.

use dlbridge::{DataType, DataTypeCode as Code};
use pyo3::prelude::*;

use super::dtypes::is_rare;
use super::framework::{Behaviour, FRAMEWORK, Framework, Layout, ReadOnly, Request};
use crate::error::is_absent;

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

/// Refuses elements that JAX cuts to 32 bits without an error, which is what it does by default.
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
        "jax makes 32 bits of {dtype}, which changes the values, unless \
         jax.config.update('jax_enable_x64', True) allows 64; do that, or convert the elements first"
    )))
}
