//! Python's objects: interned names, attributes, classes, and values that are made once.
//!
//! Some functions of the interpreter are not in the stable ABI of all versions. They are looked up by name at run time, so an
//! extension that is built for an older ABI uses the function of its interpreter. None is found on Windows.

use std::convert::Infallible;
use std::ffi::{CStr, c_int, c_void};
use std::mem;
use std::ptr::{self, NonNull};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

/// The value of a cell, made by the first call.
///
/// `PyOnceLock::get_or_init` lets other threads run while it fills the cell: if one of them forks, the next call in
/// the child waits for ever. Here two threads may each make a value, and the first one is kept.
#[inline]
pub fn once<'a, T, E>(
    cell: &'a PyOnceLock<T>,
    py: Python<'_>,
    make: impl FnOnce() -> Result<T, E>,
) -> Result<&'a T, E> {
    match cell.get(py) {
        Some(value) => Ok(value),
        None => Ok(fill(cell, py, make()?)),
    }
}

#[cold]
fn fill<'a, T>(cell: &'a PyOnceLock<T>, py: Python<'_>, value: T) -> &'a T {
    let _ = cell.set(py, value);
    match cell.get(py) {
        Some(value) => value,
        None => unreachable!("the cell was just filled"),
    }
}

/// As `pyo3::intern`, through [`once`].
#[doc(hidden)]
#[macro_export]
macro_rules! intern {
    ($py:expr, $text:expr $(,)?) => {{
        static NAME: ::pyo3::sync::PyOnceLock<::pyo3::Py<::pyo3::types::PyString>> =
            ::pyo3::sync::PyOnceLock::new();
        $crate::python::objects::interned(&NAME, $py, $text)
    }};
}

/// The interned string of a cell.
#[inline]
pub fn interned<'a, 'py>(
    cell: &'a PyOnceLock<Py<PyString>>,
    py: Python<'py>,
    text: &str,
) -> &'a Bound<'py, PyString> {
    let name = match cell.get(py) {
        Some(name) => name,
        None => intern(cell, py, text),
    };
    name.bind(py)
}

#[cold]
#[inline(never)]
fn intern<'a>(cell: &'a PyOnceLock<Py<PyString>>, py: Python<'_>, text: &str) -> &'a Py<PyString> {
    fill(cell, py, PyString::intern(py, text).unbind())
}

/// A function pointer, once it was looked up; `None` inside if the interpreter does not export the function.
type Symbol<F> = PyOnceLock<Option<F>>;

/// The function of a cell, which has the first of `names` that the interpreter exports.
///
/// # Safety
/// `F` is a function pointer, with the signature that `Python.h` gives all functions of these names, in every version
/// of CPython that has one of them.
unsafe fn function<F: Copy>(cell: &Symbol<F>, py: Python<'_>, names: &[&CStr]) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<NonNull<c_void>>()) };
    let find = || {
        let found = names.iter().find_map(|name| address(name))?;
        // SAFETY: the address of a function that the caller promises to have this type.
        Some(unsafe { mem::transmute_copy::<NonNull<c_void>, F>(&found) })
    };
    let Ok(function) = once(cell, py, || Ok::<_, Infallible>(find()));
    *function
}

fn address(name: &CStr) -> Option<NonNull<c_void>> {
    #[cfg(unix)]
    // SAFETY: a name that ends with a zero, and the symbols of the process, in which the interpreter stays loaded.
    return NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) });
    #[cfg(not(unix))]
    return Some(name).and(None);
}

/// An attribute of an object; `None` if the object lacks it.
///
/// The stable ABI has a function for this from Python 3.13 on. Earlier versions of CPython export the same function
/// under a private name; the last of them, 3.12, gets only security fixes. Without either, Python raises an
/// `AttributeError` for each missing attribute, which takes ten times as long.
///
/// # Errors
/// Any exception of the lookup other than `AttributeError`.
pub(crate) fn optional_attr<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    /// Stores a new reference, or NULL for a missing attribute. Returns a negative number if an exception is set.
    type LookUp = unsafe extern "C" fn(
        *mut ffi::PyObject,
        *mut ffi::PyObject,
        *mut *mut ffi::PyObject,
    ) -> c_int;
    static LOOK_UP: Symbol<LookUp> = Symbol::new();
    let (py, names) = (object.py(), [c"PyObject_GetOptionalAttr", c"_PyObject_LookupAttr"]);
    // SAFETY: the signature of both functions.
    let Some(look_up) = (unsafe { function(&LOOK_UP, py, &names) }) else {
        return object.getattr_opt(name);
    };
    let mut found = ptr::null_mut();
    // SAFETY: attached; an object, a string, and a place for the result.
    let status = unsafe { look_up(object.as_ptr(), name.as_ptr(), &raw mut found) };
    if status < 0 {
        return Err(PyErr::fetch(py));
    }
    // SAFETY: attached; a new reference, or NULL.
    Ok(unsafe { Bound::from_owned_ptr_or_opt(py, found) })
}

/// Returns true if the caller's reference to an object is the only one.
///
/// Without the GIL other threads change a count, which has two halves, while it is read. So Python 3.14 and later have a
/// function that also compares the thread that made the object; the stable ABI for free-threaded Pythons lacks it.
///
/// # Safety
/// `object` is a live object.
pub unsafe fn has_one_reference(py: Python<'_>, object: *mut ffi::PyObject) -> bool {
    type IsUnique = unsafe extern "C" fn(*mut ffi::PyObject) -> c_int;
    static IS_UNIQUE: Symbol<IsUnique> = Symbol::new();
    let names = [c"PyUnstable_Object_IsUniquelyReferenced"];
    if cfg!(Py_GIL_DISABLED)
        // SAFETY: the signature of the function.
        && let Some(is_unique) = unsafe { function(&IS_UNIQUE, py, &names) }
    {
        // SAFETY: attached; the caller promises a live object.
        return unsafe { is_unique(object) } != 0;
    }
    // Without that function: Python 3.13, or Windows, where a reference is never known to be the only one.
    let is_counted = cfg!(any(unix, not(Py_GIL_DISABLED)));
    // SAFETY: attached; the caller promises a live object.
    is_counted && unsafe { ffi::Py_REFCNT(object) == 1 }
}

/// Returns the name of the class of an object that is one of Python's own and not a tensor, after a few comparisons.
#[inline]
pub(crate) fn plain_python(object: &Bound<'_, PyAny>) -> Option<&'static str> {
    if object.is_none() {
        Some("NoneType")
    } else if object.is_exact_instance_of::<PyList>() {
        Some("list")
    } else if object.is_exact_instance_of::<PyTuple>() {
        Some("tuple")
    } else if object.is_exact_instance_of::<PyInt>() {
        Some("int")
    } else if object.is_exact_instance_of::<PyFloat>() {
        Some("float")
    } else if object.is_exact_instance_of::<PyString>() {
        Some("str")
    } else if object.is_exact_instance_of::<PyBool>() {
        Some("bool")
    } else if object.is_exact_instance_of::<PyDict>() {
        Some("dict")
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
