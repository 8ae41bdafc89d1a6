//! States of an object that an attribute or a method of it tells, asked again and again of objects of one
//! type.

use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use crate::classes::is_plain;

/// How objects of a type tell whether something is so.
///
/// An attribute that a type in C computes is a descriptor of the type, and so is a method. To call what it
/// has found once saves Python to look the name up in all classes each time, a third of the whole. That is
/// done for fixed types alone, the classes of the libraries: a class that a program derives may say something else, now or
/// later, and is asked by name.
pub(crate) struct Question {
    name: Py<PyString>,
    way: Way,
}

enum Way {
    /// The attribute of this name.
    Attribute,
    /// The method of this name, without arguments.
    Method,
    /// What gets the attribute, and the descriptor that it is called with.
    Getter(ffi::descrgetfunc, Py<PyAny>),
    /// The method, not bound to an object.
    Unbound(Py<PyAny>),
}

impl Question {
    /// That an attribute tells; `None` if the type has none.
    pub(super) fn attribute(
        object_type: &Bound<'_, PyType>,
        name: &Bound<'_, PyString>,
        is_fixed: bool,
    ) -> PyResult<Option<Self>> {
        let Some(found) = object_type.getattr_opt(name)? else { return Ok(None) };
        let getter =
            match is_fixed && is_plain(object_type) && is_of(&found, "GetSetDescriptorType")? {
                // SAFETY: attached; a type, and the number of one of its slots.
                true => unsafe {
                    let slot = ffi::PyType_GetSlot(found.get_type_ptr(), ffi::Py_tp_descr_get);
                    // SAFETY: what this slot holds.
                    std::mem::transmute::<*mut std::ffi::c_void, Option<ffi::descrgetfunc>>(slot)
                },
                false => None,
            };
        let way = getter.map_or(Way::Attribute, |get| Way::Getter(get, found.unbind()));
        Ok(Some(Self { name: name.clone().unbind(), way }))
    }

    /// That a method tells; `None` if the type has none.
    pub(super) fn method(
        object_type: &Bound<'_, PyType>,
        name: &Bound<'_, PyString>,
        is_fixed: bool,
    ) -> PyResult<Option<Self>> {
        let Some(found) = object_type.getattr_opt(name)? else { return Ok(None) };
        let way = match is_fixed && is_plain(object_type) && is_of(&found, "MethodDescriptorType")?
        {
            true => Way::Unbound(found.unbind()),
            false => Way::Method,
        };
        Ok(Some(Self { name: name.clone().unbind(), way }))
    }

    /// Returns true if the answer of an object of the type is true.
    pub(super) fn ask(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.answer(object)?.is_truthy()
    }

    /// The answer of an object of the type.
    pub(super) fn answer<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = object.py();
        Ok(match &self.way {
            Way::Attribute => object.getattr(&self.name)?,
            Way::Method => object.call_method0(&self.name)?,
            // Without a tuple for the one argument.
            // SAFETY: attached; a method, one object, and the end of the list.
            Way::Unbound(method) => unsafe {
                let end = ptr::null_mut::<ffi::PyObject>();
                let answer =
                    ffi::PyObject_CallFunctionObjArgs(method.as_ptr(), object.as_ptr(), end);
                Bound::from_owned_ptr_or_err(py, answer)?
            },
            // SAFETY: attached; the descriptor that the function is of, an object of its type, and that.
            Way::Getter(get, descriptor) => unsafe {
                let object_type = object.get_type_ptr().cast();
                let answer = get(descriptor.as_ptr(), object.as_ptr(), object_type);
                Bound::from_owned_ptr_or_err(py, answer)?
            },
        })
    }
}

/// Whether something is of a type of Python's module `types`.
fn is_of(object: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    let types = object.py().import(intern!(object.py(), "types"))?;
    Ok(object.get_type().is(&types.getattr(name)?))
}
