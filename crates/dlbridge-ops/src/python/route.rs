//! The framework that runs a call, by the classes of the arguments.

use std::collections::HashMap;
use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

/// The framework that runs a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Torch,
    Jax,
    Tvm,
    /// NumPy, and every other object that a typed argument accepts.
    Generic,
    /// The same, for a column of pandas, which has an index.
    Pandas,
}

/// The routes of classes that were met. The class stays alive, so its address stays its own.
static KNOWN: Mutex<Option<Routes>> = Mutex::new(None);

/// Routes by the address of the class.
type Routes = HashMap<usize, (Py<PyType>, Route)>;

/// Programs that make classes without end shall not fill the memory.
const MOST: usize = 64;

/// The route of the first argument that is a tensor of PyTorch, JAX or tvm-ffi.
pub(super) fn of(
    arguments: &Bound<'_, PyTuple>,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<Route> {
    let named = keywords.into_iter().flatten().map(|(_, argument)| argument);
    for argument in arguments.iter().chain(named) {
        match of_object(&argument)? {
            Route::Generic | Route::Pandas => {}
            route => return Ok(route),
        }
    }
    Ok(Route::Generic)
}

pub(super) fn of_object(object: &Bound<'_, PyAny>) -> PyResult<Route> {
    if is_attribute(object) {
        return Ok(Route::Generic);
    }
    let class = object.get_type();
    let address = class.as_ptr().addr();
    {
        let mut known = KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((_, route)) = known.get_or_insert_default().get(&address) {
            return Ok(*route);
        }
    }
    let route = measured(object)?;
    // The lock is free while Python runs; classes that are dropped with the map run no code of Python's under it.
    let dropped = {
        let mut known = KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let map = known.get_or_insert_default();
        let dropped = if map.len() >= MOST { std::mem::take(map) } else { HashMap::new() };
        map.insert(address, (class.unbind(), route));
        dropped
    };
    drop(dropped);
    Ok(route)
}

/// Returns true for objects that are attributes, and never tensors.
fn is_attribute(object: &Bound<'_, PyAny>) -> bool {
    object.is_none()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyBool>()
        || object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyTuple>()
        || object.is_exact_instance_of::<PyList>()
}

fn measured(object: &Bound<'_, PyAny>) -> PyResult<Route> {
    let py = object.py();
    let class_of = |module: &str, class: &str| -> PyResult<Option<Bound<'_, PyType>>> {
        let Some(module) = imported(py, module)? else { return Ok(None) };
        Ok(module.getattr(class).ok().and_then(|class| class.cast_into::<PyType>().ok()))
    };
    // Not `isinstance`, which believes an object that pretends to be a tensor: PyTorch would read it as one.
    for (module, class, route) in [
        ("torch", "Tensor", Route::Torch),
        ("tvm_ffi", "Tensor", Route::Tvm),
        ("pandas", "Series", Route::Pandas),
    ] {
        if let Some(class) = class_of(module, class)?
            && object.get_type().is_subclass(&class)?
        {
            return Ok(route);
        }
    }
    // A tracer of JAX is an instance of `jax.Array` although its class does not inherit from it.
    if let Some(class) = class_of("jax", "Array")?
        && object.is_instance(&class)?
    {
        return Ok(Route::Jax);
    }
    Ok(Route::Generic)
}

/// A module that the program has imported.
pub(super) fn imported<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let modules = py.import("sys")?.getattr("modules")?;
    let module = modules.cast_into::<PyDict>()?.get_item(name)?;
    Ok(module.filter(|module| !module.is_none()))
}
