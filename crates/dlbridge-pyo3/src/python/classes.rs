//! Facts about Python classes, found without any protocol.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use crate::python::symbols::optional_attr;

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
    let module = attr_if_any(object, "__module__")?;
    let module = module.and_then(|module| module.extract::<String>().ok()).unwrap_or_default();
    Ok(module.split('.').next().unwrap_or_default().to_owned())
}

/// The first class in the order of a type's bases that defines an attribute, and its place.
#[cold]
#[inline(never)]
pub(crate) fn defining_class<'py>(
    object_type: &Bound<'py, PyType>,
    name: &str,
) -> PyResult<Option<(usize, Bound<'py, PyAny>)>> {
    for (place, class) in object_type.mro().iter().enumerate() {
        if attr(&class, "__dict__")?.contains(name)? {
            return Ok(Some((place, class)));
        }
    }
    Ok(None)
}

/// Returns true if a type looks up attributes as `object` does.
pub(crate) fn is_plain(object_type: &Bound<'_, PyType>) -> bool {
    // SAFETY: attached; a type object, and the number of one of its slots.
    let lookup = unsafe { ffi::PyType_GetSlot(object_type.as_type_ptr(), ffi::Py_tp_getattro) };
    lookup.addr() == ffi::PyObject_GenericGetAttr as *const () as usize
}

/// Returns true for an object of a class of a module, by [`is_subclass`].
pub fn is_instance(object: &Bound<'_, PyAny>, module: &str, class: &str) -> PyResult<bool> {
    is_subclass(&object.get_type(), module, class)
}

/// Returns true for a class of a module or a subclass. Does not import the module: if an object of the class exists,
/// the module is loaded.
pub(crate) fn is_subclass(
    object_type: &Bound<'_, PyType>,
    module: &str,
    class: &str,
) -> PyResult<bool> {
    loaded_class(object_type.py(), module, class)?
        .map_or(Ok(false), |class| object_type.is_subclass(&class))
}

/// An attribute of an object. PyO3 inlines its own function into each caller, so this one is for code that runs seldom.
#[cold]
#[inline(never)]
pub(crate) fn attr<'py>(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    object.getattr(name)
}

/// As [`attr`]; `None` if the object lacks the attribute.
#[cold]
#[inline(never)]
pub(crate) fn attr_if_any<'py>(
    object: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    object.getattr_opt(name)
}

/// The modules that are loaded.
#[cold]
#[inline(never)]
pub(crate) fn modules(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    Ok(attr(py.import("sys")?.as_any(), "modules")?.cast_into()?)
}

/// A class of a module, if the module is loaded.
pub fn loaded_class<'py>(
    py: Python<'py>,
    module: &str,
    class: &str,
) -> PyResult<Option<Bound<'py, PyType>>> {
    let Some(module) = modules(py)?.get_item(module)? else { return Ok(None) };
    // Any module may have this name.
    Ok(attr_if_any(&module, class)?.and_then(|class| class.cast_into::<PyType>().ok()))
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
