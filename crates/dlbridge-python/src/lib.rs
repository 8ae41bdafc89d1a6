//! The extension module of the Python package: registration, files with tensors, and maps of shared memory.

mod files;
#[cfg(unix)]
mod shared_map;

use pyo3::prelude::*;

/// The compiled core of dlbridge.
#[cfg_attr(feature = "free-threaded", pymodule(gil_used = false))]
#[cfg_attr(not(feature = "free-threaded"), pymodule(gil_used = true))]
mod _core {
    use pyo3::exceptions::PyImportError;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        if !dlbridge_pyo3::is_main_interpreter(module.py()) {
            return Err(PyImportError::new_err(
                "dlbridge does not support subinterpreters; import it in the main interpreter",
            ));
        }
        dlbridge_pyo3::package::register(module)?;
        module.add_class::<crate::files::File>()?;
        module.add_class::<crate::files::Writer>()?;
        #[cfg(unix)]
        module.add_class::<crate::shared_map::SharedMap>()?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
