//! Attributes and methods that are read often from objects of one type.

use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use crate::classes::is_plain;

/// An attribute, or a method without arguments, of the objects of a type.
///
/// An attribute that a C type computes is a descriptor of the type, and so is a method. Calling the cached descriptor
/// saves Python the lookup of the name in all classes, a third of the time. This works only for fixed types, the
/// classes of the frameworks. A class that a program derives may define the name itself, now or later, so the
/// attribute of its objects is looked up by name.
pub(crate) struct CachedAttr {
    name: Py<PyString>,
    access: Access,
}

enum Access {
    /// The attribute of this name.
    Attribute,
    /// The method of this name, without arguments.
    Method,
    /// The function that returns the attribute, and the descriptor to pass to it.
    Getter(ffi::descrgetfunc, Py<PyAny>),
    /// The method, unbound.
    Unbound(Py<PyAny>),
}

impl CachedAttr {
    /// An attribute of a type; `None` if the type does not have it.
    pub(super) fn attribute(
        object_type: &Bound<'_, PyType>,
        name: &Bound<'_, PyString>,
        is_fixed: bool,
    ) -> PyResult<Option<Self>> {
        let Some(found) = object_type.getattr_opt(name)? else { return Ok(None) };
        let getter =
            match is_fixed && is_plain(object_type) && is_of(&found, "GetSetDescriptorType")? {
                // SAFETY: attached. The arguments are a live type and the number of a slot that all types have.
                true => unsafe {
                    let slot = ffi::PyType_GetSlot(found.get_type_ptr(), ffi::Py_tp_descr_get);
                    // SAFETY: CPython defines this slot as NULL or a `descrgetfunc`, and NULL becomes `None`.
                    std::mem::transmute::<*mut std::ffi::c_void, Option<ffi::descrgetfunc>>(slot)
                },
                false => None,
            };
        let access = getter.map_or(Access::Attribute, |get| Access::Getter(get, found.unbind()));
        Ok(Some(Self { name: name.clone().unbind(), access }))
    }

    /// A method of a type; `None` if the type does not have it.
    pub(super) fn method(
        object_type: &Bound<'_, PyType>,
        name: &Bound<'_, PyString>,
        is_fixed: bool,
    ) -> PyResult<Option<Self>> {
        let Some(found) = object_type.getattr_opt(name)? else { return Ok(None) };
        let access =
            match is_fixed && is_plain(object_type) && is_of(&found, "MethodDescriptorType")? {
                true => Access::Unbound(found.unbind()),
                false => Access::Method,
            };
        Ok(Some(Self { name: name.clone().unbind(), access }))
    }

    /// Returns true if the value for an object of the type is true.
    pub(super) fn is_true(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.value(object)?.is_truthy()
    }

    /// The value for an object of the type.
    pub(super) fn value<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = object.py();
        Ok(match &self.access {
            Access::Attribute => object.getattr(&self.name)?,
            Access::Method => object.call_method0(&self.name)?,
            // No tuple is needed for the single argument.
            // SAFETY: attached. `method` and `object` are live objects, and NULL ends the list of arguments; the
            // result is a new reference, or NULL with an exception.
            Access::Unbound(method) => unsafe {
                let end = ptr::null_mut::<ffi::PyObject>();
                let value =
                    ffi::PyObject_CallFunctionObjArgs(method.as_ptr(), object.as_ptr(), end);
                Bound::from_owned_ptr_or_err(py, value)?
            },
            // SAFETY: attached. `get` is the slot of the descriptor's type, so it takes the descriptor, an object of
            // the type that has the descriptor, and the type; the result is a new reference, or NULL with an
            // exception.
            Access::Getter(get, descriptor) => unsafe {
                let object_type = object.get_type_ptr().cast();
                let value = get(descriptor.as_ptr(), object.as_ptr(), object_type);
                Bound::from_owned_ptr_or_err(py, value)?
            },
        })
    }
}

/// Returns true for an object of a type in Python's module `types`.
fn is_of(object: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    let types = object.py().import(intern!(object.py(), "types"))?;
    Ok(object.get_type().is(&types.getattr(name)?))
}
