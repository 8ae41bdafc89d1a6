//! The extension module of the Python package: the class `Tensor`, the protocols that extensions leave to the package, the
//! frameworks that get tensors, files with tensors, and maps of shared memory.

#[macro_use(intern)]
extern crate dlbridge_pyo3;

mod arrow;
mod bytes;
mod class;
mod columns;
mod device;
mod export;
mod files;
mod frameworks;
mod functions;
mod import;
mod interfaces;
mod matrix;
mod memory;
mod pointers;
#[cfg(unix)]
mod shared_map;
mod tensor;
mod to_library;

use pyo3::prelude::*;

/// The compiled core of dlbridge.
#[cfg_attr(feature = "free-threaded", pymodule(gil_used = false))]
#[cfg_attr(not(feature = "free-threaded"), pymodule(gil_used = true))]
pub mod _core {
    use pyo3::exceptions::PyImportError;
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::bytes::{copy_bytes, rebuild};
    #[pymodule_export]
    use crate::columns::{chunks, list_array, list_schema, lists, offsets_range, times};
    #[pymodule_export]
    use crate::files::{File, Writer};
    #[pymodule_export]
    use crate::functions::{
        asdlpack, empty, from_dlpack, get_num_threads, has_protocol, remedy, set_num_threads,
    };
    #[pymodule_export]
    use crate::matrix::{matrix, matrix_of_argument};
    #[pymodule_export]
    use crate::pointers::from_managed;
    #[cfg(unix)]
    #[pymodule_export]
    use crate::shared_map::SharedMap;
    #[pymodule_export]
    use crate::tensor::TensorObject;
    // Extensions of other releases use `asdlpack` with its keywords, `Tensor._record`, `_like`, `_like_times`, `_times`,
    // `_matrix` and `_remedy`: keep their names, arguments and results.
    #[pymodule_export]
    use crate::to_library::{canonical, consumers, fit, like, like_result, like_times, origin};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        if !dlbridge_pyo3::python::interpreter::is_main_interpreter(module.py()) {
            return Err(PyImportError::new_err(
                "dlbridge does not support subinterpreters; import it in the main interpreter",
            ));
        }
        TensorObject::link(module.py());
        module.add("DTypeName", crate::class::dtype::class(module.py())?)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
