//! Attributes and methods that are read often from objects of one type.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBoolMethods, PyString, PyType};

use crate::frameworks::Attribute;
use crate::python::classes::{attr, is_plain};

/// An attribute, or a method without arguments, of the objects of a type.
///
/// An attribute that a C type computes is a C function in a table of the type, and so is a method. The stable ABI has
/// these tables. Calling the function saves Python the lookup of the name in all classes, and the checks that a
/// descriptor makes at each call. This works only for fixed types, the classes of the frameworks. A class that a
/// program derives may define the name itself, now or later, so the attribute of its objects is looked up by name.
pub(crate) struct CachedAttr {
    name: Py<PyString>,
    access: Access,
}

enum Access {
    /// By the name of the attribute, or of the method without arguments.
    Name { is_method: bool },
    /// The C function that returns the attribute, and its second argument.
    Getter(ffi::getter, Closure),
    /// The C function of the method.
    Function(ffi::PyCFunction),
}

/// The second argument of a getter.
#[derive(Clone, Copy)]
struct Closure(*mut c_void);

// SAFETY: this code only passes the pointer to the getter that it belongs to. Python calls a getter with the same
// pointer from any thread that is attached.
unsafe impl Send for Closure {}
// SAFETY: as for `Send`.
unsafe impl Sync for Closure {}

impl CachedAttr {
    /// An attribute of a type; `None` if the type does not have it.
    pub(super) fn of(
        object_type: &Bound<'_, PyType>,
        attribute: Attribute,
        is_fixed: bool,
    ) -> PyResult<Option<Self>> {
        let (is_method, name) = match attribute {
            Attribute::Value(name) => (false, name),
            Attribute::Method(name) => (true, name),
        };
        let name = PyString::intern(object_type.py(), name);
        let Some(found) = object_type.getattr_opt(&name)? else { return Ok(None) };
        let function = match is_fixed && is_plain(object_type) {
            true => function(object_type, &found, is_method)?,
            false => None,
        };
        let access = function.unwrap_or(Access::Name { is_method });
        Ok(Some(Self { name: name.unbind(), access }))
    }

    /// Returns true if a C function returns the value, without a lookup of the name.
    pub(super) fn is_function(&self) -> bool {
        matches!(self.access, Access::Getter(..) | Access::Function(_))
    }

    /// Returns true if the value for an object of the type is true.
    #[inline]
    pub(super) fn is_true(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let value = self.value(object)?;
        // Most values are one of these two objects.
        match value.cast_exact::<PyBool>() {
            Ok(value) => Ok(value.is_true()),
            Err(_) => value.is_truthy(),
        }
    }

    /// The value for an object of the type, which is an address or a number of bytes.
    #[inline]
    pub(super) fn size(&self, object: &Bound<'_, PyAny>) -> PyResult<usize> {
        let value = self.value(object)?;
        // Takes a third of the time of `extract`, which also converts objects with `__index__`.
        // SAFETY: attached; a live object. `usize::MAX` means an error only if an exception is set.
        let size = unsafe { ffi::PyLong_AsSize_t(value.as_ptr()) };
        match size == usize::MAX {
            true => PyErr::take(object.py()).map_or(Ok(size), Err),
            false => Ok(size),
        }
    }

    /// The value for an object of the type.
    #[inline]
    pub(super) fn value<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = object.py();
        Ok(match &self.access {
            Access::Name { is_method: false } => object.getattr(&self.name)?,
            Access::Name { is_method: true } => object.call_method0(&self.name)?,
            // SAFETY: attached. `object` is of a subclass of the type whose table has the getter, which `function`
            // compared, and the closure is the getter's; the result is a new reference, or NULL with an exception.
            Access::Getter(get, closure) => unsafe {
                Bound::from_owned_ptr_or_err(py, get(object.as_ptr(), closure.0))?
            },
            // SAFETY: attached. `object` is of a subclass of the type whose table has the method, which `function`
            // compared, and NULL is the second argument of a method without arguments; the result is a new reference,
            // or NULL with an exception.
            Access::Function(function) => unsafe {
                Bound::from_owned_ptr_or_err(py, function(object.as_ptr(), ptr::null_mut()))?
            },
        })
    }
}

/// The C function of an attribute or a method without arguments, in the table of the class that defines it. `None` if
/// there is none, or if objects of the type do not belong to that class: their descriptor raises.
fn function(
    object_type: &Bound<'_, PyType>,
    found: &Bound<'_, PyAny>,
    is_method: bool,
) -> PyResult<Option<Access>> {
    let (descriptor, slot) = match is_method {
        true => ("MethodDescriptorType", ffi::Py_tp_methods),
        false => ("GetSetDescriptorType", ffi::Py_tp_getset),
    };
    if !found.get_type().is(&attr(found.py().import("types")?.as_any(), descriptor)?) {
        return Ok(None);
    }
    let class = attr(found, "__objclass__")?.cast_into::<PyType>()?;
    let name: String = attr(found, "__name__")?.extract()?;
    // SAFETY: attached; two live types. A metaclass cannot change the answer, unlike that of `issubclass`.
    if unsafe { ffi::PyType_IsSubtype(object_type.as_type_ptr(), class.as_type_ptr()) } == 0 {
        return Ok(None);
    }
    // SAFETY: attached. A type object and the number of one of its slots, which CPython defines as NULL or a table of
    // this type, with entries of the type below. A table lives as long as its type, which a subclass keeps.
    Ok(unsafe {
        let table = ffi::PyType_GetSlot(class.as_type_ptr(), slot);
        if is_method {
            let method = entry(table.cast::<ffi::PyMethodDef>(), &name, |entry| entry.ml_name);
            // These flags say that the function is of this type.
            let method = method.filter(|entry| entry.ml_flags == ffi::METH_NOARGS);
            method.map(|entry| Access::Function(entry.ml_meth.PyCFunction))
        } else {
            let getter = entry(table.cast::<ffi::PyGetSetDef>(), &name, |entry| entry.name);
            getter.and_then(|entry| Some(Access::Getter(entry.get?, Closure(entry.closure))))
        }
    })
}

/// The entry of a table with a name. Python makes the descriptor of the first one.
///
/// # Safety
/// `table` is NULL or a table of `T` that lives for `'a` and ends with an entry whose name is NULL. `name_of` returns
/// NULL or a C string.
unsafe fn entry<'a, T>(
    table: *const T,
    name: &str,
    name_of: impl Fn(&T) -> *const c_char,
) -> Option<&'a T> {
    let mut next = table;
    loop {
        // SAFETY: NULL or an entry: the loop ends at the last one.
        let entry = unsafe { next.as_ref() }?;
        let found = name_of(entry);
        if found.is_null() {
            return None;
        }
        // SAFETY: the caller promises a C string.
        if unsafe { CStr::from_ptr(found) }.to_bytes() == name.as_bytes() {
            return Some(entry);
        }
        // SAFETY: the entry is not the last one.
        next = unsafe { next.add(1) };
    }
}
