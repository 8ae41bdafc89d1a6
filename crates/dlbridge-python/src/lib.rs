//! The extension module of the Python package: registration only.

use pyo3::prelude::*;

/// The compiled core of dlbridge.
#[pymodule(gil_used = true)]
mod _core {
    #[pymodule_export]
    use dlbridge_pyo3::{
        PyTensor, asdlpack, canonical, consumers, copy_bytes, empty, fit, from_dlpack,
        has_protocol, like, live_exports, origin, rebuild, record_exports,
    };
    use pyo3::exceptions::PyImportError;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        if !dlbridge_pyo3::is_main_interpreter(module.py()) {
            return Err(PyImportError::new_err(
                "dlbridge does not support subinterpreters; import it in the main interpreter",
            ));
        }
        module.add("DTypeName", dlbridge_pyo3::dtype_name_class(module.py())?)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
