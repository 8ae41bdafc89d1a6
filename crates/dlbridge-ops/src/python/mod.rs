//! The Python functions of operators: one function for the arrays of all libraries.
//!
//! 1. `route` decides by the classes of the arguments which framework runs the call;
//! 2. PyTorch, JAX and tvm-ffi run it as a function that `glue` registered with them;
//! 3. for all other objects, `bind` gives each parameter its argument, and `generic` calls the operator.

mod bind;
mod describe;
mod exceptions;
mod generic;
mod glue;
mod methods;
mod route;

use pyo3::prelude::*;
use pyo3::types::PyCFunction;

use self::exceptions::exception;
use crate::library::Library;

#[doc(hidden)]
pub use self::glue::Function;

/// Adds a function for each operator of a library to a Python module.
///
/// PyTorch gets the operators too, as `torch.ops.NAMESPACE.NAME`: now if it is imported, otherwise with the first call
/// on a tensor, or by the module's function `register_torch()`.
///
/// # Errors
/// `TypeError` if a vjp does not fit its operator; `RuntimeError` if PyTorch is imported and cannot register the operators,
/// for example because another extension registered an operator of the same name. With a release of PyTorch that is not
/// supported, the first call on a tensor and `register_torch()` raise `ImportError`.
///
/// ```no_run
/// use dlbridge_ops::{library, op};
/// use pyo3::prelude::*;
///
/// #[op]
/// fn double(x: &[f32], out: &mut [f32]) {
///     out.iter_mut().zip(x).for_each(|(out, x)| *out = 2.0 * x);
/// }
///
/// library!("doubles": double);
///
/// #[pymodule]
/// fn doubles(module: &Bound<'_, PyModule>) -> PyResult<()> {
///     dlbridge_ops::python::add(module, &LIBRARY)
/// }
/// # fn main() {}
/// ```
pub fn add(module: &Bound<'_, PyModule>, library: &'static Library) -> PyResult<()> {
    let py = module.py();
    library.check().map_err(|error| exception(&error))?;
    let functions = glue::all(py, library)?;
    for function in &functions {
        module.add(function.get().operator().name, function)?;
    }
    glue::keep(module, library, functions)?;
    let register = PyCFunction::new_closure(
        py,
        Some(c"register_torch"),
        Some(c"Imports PyTorch and registers the operators as torch.ops.NAMESPACE.NAME."),
        move |arguments, _| {
            arguments.py().import("torch")?;
            glue::register_torch(arguments.py(), library)
        },
    )?;
    module.add("register_torch", &register)?;
    glue::torch_if_imported(py, library)?;
    glue::allow_in_graphs(library, register.as_any())
}
