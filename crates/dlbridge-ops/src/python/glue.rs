//! An operator's Python function, and the Python code that registers it with frameworks.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Mutex;

use pyo3::exceptions::{PyImportError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use super::bind::{Arguments, outs, single};
use super::describe;
use super::exceptions::exception;
use super::route;
use crate::library::{Exported, Library};
use crate::operator::Operator;
use crate::parameter::{Kind, Parameter};
use crate::torch;

// An operator as a Python function for the arrays of all libraries; `add` makes it. Not a doc comment, which would
// replace the documentation of the operator. `jax.jit` needs weak references to a function: without them it raises, and
// crashes the next time.
#[expect(
    missing_docs,
    reason = "Python shows the documentation of the class in place of the operator's"
)]
#[pyclass(frozen, weakref, module = "dlbridge_ops", name = "Operator")]
pub struct Function {
    pub(super) library: &'static Library,
    pub(super) exported: &'static Exported,
    pub(super) glued: Glued,
}

/// The functions of a framework for an operator, once they are made.
pub(super) struct Glued {
    pub(super) torch: PyOnceLock<(Py<PyAny>, Py<PyAny>)>,
    pub(super) jax: PyOnceLock<Py<PyAny>>,
    /// Set in the first function of a library once PyTorch has all of them.
    pub(super) registered: PyOnceLock<()>,
}

impl Glued {
    pub(super) const fn new() -> Self {
        Self { torch: PyOnceLock::new(), jax: PyOnceLock::new(), registered: PyOnceLock::new() }
    }
}

impl Function {
    pub(super) fn operator(&self) -> &'static Operator {
        self.exported.operator
    }
}

/// The functions of a library, in its order.
pub(super) fn all(py: Python<'_>, library: &'static Library) -> PyResult<Vec<Py<Function>>> {
    let function = |exported| Py::new(py, Function { library, exported, glued: Glued::new() });
    library.operators.iter().map(function).collect()
}

/// The functions of a library, the name of their module, and its file.
struct Kept {
    library: &'static Library,
    functions: Vec<Py<Function>>,
    module: String,
    path: String,
}

/// Those of this extension; most extensions have one library.
static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// Keeps the functions of a library for the life of the process.
pub(super) fn keep(
    module: &Bound<'_, PyModule>,
    library: &'static Library,
    functions: Vec<Py<Function>>,
) -> PyResult<()> {
    let path = module.getattr("__spec__")?.getattr("origin")?.extract()?;
    let module = module.name()?.extract()?;
    let kept = Kept { library, functions, module, path };
    KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(kept);
    Ok(())
}

/// Returns what a function reads of the library that was kept last.
fn of_kept<R>(library: &'static Library, read: impl FnOnce(&Kept) -> R) -> PyResult<R> {
    let kept = KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let found = kept.iter().rev().find(|kept| std::ptr::eq(kept.library, library));
    found
        .map(read)
        .ok_or_else(|| PyRuntimeError::new_err("the library of operators is not in a module"))
}

/// The functions of a library.
fn functions(py: Python<'_>, library: &'static Library) -> PyResult<Vec<Py<Function>>> {
    of_kept(library, |kept| kept.functions.iter().map(|one| one.clone_ref(py)).collect())
}

/// The file of a library's extension.
pub(super) fn path(library: &'static Library) -> PyResult<String> {
    of_kept(library, |kept| kept.path.clone())
}

/// The name of the module that has the functions of a library.
pub(super) fn module(library: &'static Library) -> PyResult<String> {
    of_kept(library, |kept| kept.module.clone())
}

/// The function of an operator.
pub(super) fn function_of<'py>(
    py: Python<'py>,
    library: &'static Library,
    operator: &'static Operator,
) -> PyResult<Bound<'py, Function>> {
    let functions = functions(py, library)?.into_iter();
    let mut found = functions.filter(|function| std::ptr::eq(function.get().operator(), operator));
    let missing = || PyRuntimeError::new_err(format!("{} is not in the library", operator.name));
    Ok(found.next().ok_or_else(missing)?.into_bound(py))
}

/// A module of Python code in this crate. It is not among Python's modules: each extension of a process has its own,
/// perhaps of another release, and holds what it registered.
macro_rules! module {
    ($function:ident, $file:literal) => {
        fn $function(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
            static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
            let made = MODULE.get_or_try_init(py, || {
                let module = PyModule::new(py, concat!("dlbridge_ops.", stringify!($function)))?;
                let builtins = py.import("builtins")?;
                let file = concat!("dlbridge_ops/", $file);
                let code = builtins.call_method1("compile", (include_str!($file), file, "exec"))?;
                builtins.call_method1("exec", (code, module.dict()))?;
                Ok::<_, PyErr>(module.unbind())
            });
            made.map(|module| module.bind(py))
        }
    };
}

module!(extents, "extents.py");
module!(torch_glue, "torch_glue.py");
module!(torch_compile, "torch_compile.py");
module!(jax_glue, "jax_glue.py");

/// Registers the operators with PyTorch if the program has imported it.
pub(super) fn torch_if_imported(py: Python<'_>, library: &'static Library) -> PyResult<()> {
    match route::imported(py, "torch")? {
        // A module that is only half imported has no class yet; the first call registers.
        Some(module) if module.hasattr("Tensor")? && module.hasattr("library")? => {
            match register_torch(py, library) {
                // A release that is not supported hinders no arrays of other libraries; the first call on a tensor raises.
                Err(error) if error.is_instance_of::<PyImportError>(py) => Ok(()),
                result => result,
            }
        }
        _ => Ok(()),
    }
}

/// Lets PyTorch's compiler trace the functions of a library, once the program imports it. `register` registers the
/// operators with PyTorch.
pub(super) fn allow_in_graphs(
    library: &'static Library,
    register: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = register.py();
    torch_compile(py)?.call_method1("allow", (functions(py, library)?, register))?;
    Ok(())
}

/// Registers the operators with PyTorch, once.
pub(super) fn register_torch(py: Python<'_>, library: &'static Library) -> PyResult<()> {
    let functions = functions(py, library)?;
    let Some(first) = functions.first() else { return Ok(()) };
    first.get().glued.registered.get_or_try_init(py, || {
        torch::register(library).map_err(|error| exception(&error))?;
        let glue = torch_glue(py).inspect_err(|_| torch::withdraw(library))?;
        glue.call_method1("register", (&functions, extents(py)?.getattr("shapes")?))?;
        Ok::<_, PyErr>(())
    })?;
    Ok(())
}

/// The functions of PyTorch for an operator: the overload without `out`, and all overloads.
fn torch_functions<'py>(
    function: &Bound<'py, Function>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let (py, one) = (function.py(), function.get());
    let made = one.glued.torch.get_or_try_init(py, || {
        register_torch(py, one.library)?;
        let operators = py.import("torch")?.getattr("ops")?.getattr(one.library.namespace)?;
        let packet = operators.getattr(one.operator().name)?;
        Ok::<_, PyErr>((packet.getattr("default")?.unbind(), packet.unbind()))
    })?;
    Ok((made.0.bind(py).clone(), made.1.bind(py).clone()))
}

/// Calls an operator on tensors of PyTorch.
pub(super) fn call_torch<'py>(
    function: &Bound<'py, Function>,
    arguments: &Bound<'py, PyTuple>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (default, packet) = torch_functions(function)?;
    let (py, operator) = (function.py(), function.get().operator());
    let in_place = |parameter: &Parameter| matches!(parameter.kind, Kind::InPlace(_));
    let is_complete = keywords.is_none() && arguments.len() == operator.inputs.len();
    if is_complete && !operator.inputs().any(in_place) {
        return default.call1(arguments);
    }
    let Arguments { values, out } = Arguments::bind(operator, arguments, keywords)?;
    let values = operator.inputs().zip(values).map(|(parameter, value)| match value {
        Some(value) => Ok(value),
        None => describe::default(py, parameter),
    });
    let values = values.collect::<PyResult<Vec<_>>>()?;
    // The schema returns only the outputs; the changed arguments come first, as with the other libraries.
    let changed = operator.inputs().zip(&values).filter(|(parameter, _)| in_place(parameter));
    let mut results: Vec<_> = changed.map(|(_, value)| value.clone()).collect();
    let values = PyTuple::new(py, values)?;
    if let Some(out) = out {
        let filled = outs(operator, &out)?;
        let named = PyDict::new(py);
        for (output, tensor) in operator.outputs().zip(&filled) {
            named.set_item(output.name, tensor)?;
        }
        packet.call(values, Some(&named))?;
        results.extend(filled);
    } else {
        let result = default.call1(values)?;
        match operator.outputs.len() {
            0 => {}
            1 => results.push(result),
            _ => results.extend(result.cast_into::<PyTuple>()?.iter()),
        }
    }
    single(py, results)
}

/// The function of JAX for an operator.
pub(super) fn jax<'py>(function: &Bound<'py, Function>) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    let made = function.get().glued.jax.get_or_try_init(py, || {
        let glue = jax_glue(py)?;
        glue.setattr("extents", extents(py)?)?;
        glue.call_method1("make", (function,)).map(Bound::unbind)
    });
    made.map(|callable| callable.bind(py).clone())
}

/// The address of an operator's handler for XLA.
pub(super) fn xla_handler<'py>(
    py: Python<'py>,
    exported: &Exported,
) -> PyResult<Bound<'py, PyAny>> {
    let handler = NonNull::new(exported.xla as *mut c_void);
    let handler = handler.ok_or_else(|| PyRuntimeError::new_err("the handler has no address"))?;
    // SAFETY: the address is that of a function, which lives as long as the extension; the capsule frees nothing.
    let capsule = unsafe { PyCapsule::new_with_pointer(py, handler, c"xla._CUSTOM_CALL_TARGET") }?;
    Ok(capsule.into_any())
}
