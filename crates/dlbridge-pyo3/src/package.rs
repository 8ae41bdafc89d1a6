//! The contents of the extension module `dlbridge._core`.
//!
//! The functions are in this crate because they use its private state: options and frameworks. One function
//! that registers them is a smaller public surface than that state.

use pyo3::prelude::*;

use crate::class::dtype;
use crate::{PyTensor, chunks, functions, pickle, ragged, to_library};

/// Adds the class `Tensor` and the functions of the Python package to a module.
///
/// This is for the package and for tests. It may change in any release.
///
/// # Errors
/// Those of Python, like `MemoryError`.
///
/// ```no_run
/// use pyo3::prelude::*;
///
/// #[pymodule]
/// fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
///     dlbridge_pyo3::package::register(module)
/// }
/// ```
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyTensor>()?;
    module.add_function(wrap_pyfunction!(functions::asdlpack, module)?)?;
    module.add_function(wrap_pyfunction!(to_library::canonical, module)?)?;
    module.add_function(wrap_pyfunction!(chunks::chunks, module)?)?;
    module.add_function(wrap_pyfunction!(to_library::consumers, module)?)?;
    module.add_function(wrap_pyfunction!(pickle::copy_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(functions::empty, module)?)?;
    module.add_function(wrap_pyfunction!(to_library::fit, module)?)?;
    module.add_function(wrap_pyfunction!(functions::from_dlpack, module)?)?;
    module.add_function(wrap_pyfunction!(functions::get_num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(functions::has_protocol, module)?)?;
    module.add_function(wrap_pyfunction!(to_library::like::like, module)?)?;
    module.add_function(wrap_pyfunction!(ragged::list_array, module)?)?;
    module.add_function(wrap_pyfunction!(ragged::list_schema, module)?)?;
    module.add_function(wrap_pyfunction!(ragged::lists, module)?)?;
    module.add_function(wrap_pyfunction!(ragged::offsets_range, module)?)?;
    module.add_function(wrap_pyfunction!(to_library::origin, module)?)?;
    module.add_function(wrap_pyfunction!(pickle::rebuild, module)?)?;
    module.add_function(wrap_pyfunction!(functions::set_num_threads, module)?)?;
    module.add("DTypeName", dtype::class(module.py())?)
}
