//! Facts about Python classes, found without any protocol.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use crate::optional_attr::optional_attr;

/// One of Python's own classes that are not tensors.
#[derive(Clone, Copy)]
pub(crate) struct Plain {
    pub(crate) name: &'static str,
    /// True if an array could hold the elements of its objects.
    pub(crate) has_elements: bool,
}

/// Returns the class of an object that is one of Python's own and not a tensor, after a few comparisons.
#[inline]
pub(crate) fn plain_python(object: &Bound<'_, PyAny>) -> Option<Plain> {
    let plain = |name, has_elements| Some(Plain { name, has_elements });
    if object.is_none() {
        plain("NoneType", false)
    } else if object.is_exact_instance_of::<PyList>() {
        plain("list", true)
    } else if object.is_exact_instance_of::<PyTuple>() {
        plain("tuple", true)
    } else if object.is_exact_instance_of::<PyInt>() {
        plain("int", false)
    } else if object.is_exact_instance_of::<PyFloat>() {
        plain("float", false)
    } else if object.is_exact_instance_of::<PyString>() {
        plain("str", false)
    } else if object.is_exact_instance_of::<PyBool>() {
        plain("bool", false)
    } else if object.is_exact_instance_of::<PyDict>() {
        plain("dict", false)
    } else {
        None
    }
}

/// Returns true for an object of one of Python's own classes that are not tensors, after a few comparisons.
#[inline]
pub(crate) fn is_plain_python(object: &Bound<'_, PyAny>) -> bool {
    plain_python(object).is_some()
}

/// The package of a class or a function, by its `__module__`; empty if that is not a usual name.
pub(crate) fn package_of(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let module = object.getattr_opt(intern!(object.py(), "__module__"))?;
    let module = module.and_then(|module| module.extract::<String>().ok()).unwrap_or_default();
    Ok(module.split('.').next().unwrap_or_default().to_owned())
}

/// Returns true if a type looks up attributes as `object` does.
pub(crate) fn is_plain(object_type: &Bound<'_, PyType>) -> bool {
    // SAFETY: attached; a type object, and the number of one of its slots.
    let lookup = unsafe { ffi::PyType_GetSlot(object_type.as_type_ptr(), ffi::Py_tp_getattro) };
    lookup.addr() == ffi::PyObject_GenericGetAttr as *const () as usize
}

/// Returns true for an object of a class of a module, by [`is_subclass`].
pub fn is_instance(
    object: &Bound<'_, PyAny>,
    module: &Bound<'_, PyString>,
    class: &Bound<'_, PyString>,
) -> PyResult<bool> {
    is_subclass(&object.get_type(), module, class)
}

/// Returns true for a class of a module or a subclass. Does not import the module: if an object of the class exists,
/// the module is loaded.
pub(crate) fn is_subclass(
    object_type: &Bound<'_, PyType>,
    module: &Bound<'_, PyString>,
    class: &Bound<'_, PyString>,
) -> PyResult<bool> {
    loaded_class(module, class)?.map_or(Ok(false), |class| object_type.is_subclass(&class))
}

/// A class of a module, if the module is loaded.
pub fn loaded_class<'py>(
    module: &Bound<'py, PyString>,
    class: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyType>>> {
    let py = module.py();
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    let Some(module) = modules.cast::<PyDict>()?.get_item(module)? else { return Ok(None) };
    // Any module may have this name.
    Ok(module.getattr_opt(class)?.and_then(|class| class.cast_into::<PyType>().ok()))
}

/// An attribute of an object; `None` for a class, which has the attributes of its instances. An object declines a
/// protocol by the value `None`.
pub fn attribute<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let found = optional_attr(object, name)?.filter(|found| !found.is_none());
    Ok(found.filter(|_| !object.is_instance_of::<PyType>()))
}
