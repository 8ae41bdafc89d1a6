//! Finds the framework that a name, a module or an object means.

use dlbridge::Device;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::frameworks::{FRAMEWORKS, Framework};
use crate::import_options::wrong_type;

/// The framework of a name.
pub(crate) fn framework(name: &str) -> PyResult<&'static Framework> {
    Framework::by_name(name).ok_or_else(|| {
        if name.parse::<Device>().is_ok() || name.split(':').next() == Some("cuda") {
            let device = if name == "cuda" { "cuda:0" } else { name };
            return PyValueError::new_err(format!(
                "'{name}' is a device, not a library; call dlbridge.asdlpack(t, device='{device}')"
            ));
        }
        let names: Vec<_> = FRAMEWORKS.iter().map(|framework| framework.name).collect();
        PyValueError::new_err(format!(
            "unknown library '{name}'; known: {}; for another library, call its own \
             from_dlpack(t)",
            names.join(", ")
        ))
    })
}

/// The name of the library in an argument: a name, or a module.
pub(crate) fn library_name(argument: &str, library: &Bound<'_, PyAny>) -> PyResult<String> {
    let Ok(module) = library.cast::<PyModule>() else {
        let wrong = |_| wrong_type(argument, "the name of a library, or its module", library);
        return library.extract().map_err(wrong);
    };
    let name = module.name()?.to_cow()?.into_owned();
    let package = name.split('.').next().unwrap_or_default();
    Ok(Framework::by_package(package).map_or(name, |framework| framework.name.to_owned()))
}

/// The framework that an object belongs to.
pub(super) fn framework_of(object: &Bound<'_, PyAny>) -> PyResult<Option<&'static Framework>> {
    let py = object.py();
    let bases = object.get_type().getattr(intern!(py, "__mro__"))?.cast_into::<PyTuple>()?;
    for class in bases.iter() {
        // A metaclass may return anything.
        let Ok(module) = class.getattr(intern!(py, "__module__"))?.extract::<String>() else {
            continue;
        };
        let package = module.split('.').next().unwrap_or_default();
        if let Some(framework) = Framework::by_package(package) {
            return Ok(Some(framework));
        }
    }
    Ok(None)
}
