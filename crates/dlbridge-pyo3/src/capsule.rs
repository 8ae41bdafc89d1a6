//! Capsules: a managed tensor on its way from producer to consumer.
//!
//! A capsule named `dltensor` or `dltensor_versioned` holds a tensor nobody has taken. Whoever
//! takes it renames the capsule with `used_` in front. A capsule that dies under its first name
//! calls the deleter itself.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use dlbridge::Tensor;
use dlbridge::sys::{
    DLManagedTensor, DLManagedTensorVersioned, DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION,
    DLPackVersion,
};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyTuple};

use crate::error::to_py_err;
use crate::imported::{Imported, Protocol};
use crate::once::once;
use crate::pending::keeping_pending;
use crate::shown::shown;

const LEGACY: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const USED_LEGACY: &CStr = c"used_dltensor";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";

/// The name of a capsule over the versioned managed tensor that an array of NumPy was made from.
pub(crate) const OWNER_OF_ARRAY: &CStr = c"dlbridge_owner_of_array";

/// The `max_version` that a producer is asked for.
pub(crate) fn max_version(py: Python<'_>) -> PyResult<&Bound<'_, PyTuple>> {
    static VERSION: PyOnceLock<Py<PyTuple>> = PyOnceLock::new();
    let make = || Ok((DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION).into_pyobject(py)?.unbind());
    once(&VERSION, py, make).map(|version| version.bind(py))
}

/// A capsule over a versioned managed tensor, which it owns from here on.
///
/// # Safety
/// `managed` is valid, and the caller gives it up.
pub(crate) unsafe fn versioned(
    py: Python<'_>,
    managed: *mut DLManagedTensorVersioned,
) -> PyResult<Bound<'_, PyCapsule>> {
    // SAFETY: the destructor is the one for the name, and takes a valid managed tensor.
    let capsule = unsafe { new(py, managed.cast(), VERSIONED, destroy_versioned) };
    // SAFETY: without a capsule the managed tensor is still ours. The caller promises that it is valid, and gives it up.
    capsule.inspect_err(|_| drop(unsafe { Tensor::from_raw(managed) }))
}

/// A capsule over a legacy managed tensor, which it owns from here on.
///
/// # Safety
/// `managed` is valid, and the caller gives it up.
pub(crate) unsafe fn legacy(
    py: Python<'_>,
    managed: *mut DLManagedTensor,
) -> PyResult<Bound<'_, PyCapsule>> {
    // SAFETY: the destructor is the one for the name, and takes a valid managed tensor.
    let capsule = unsafe { new(py, managed.cast(), LEGACY, destroy_legacy) };
    // SAFETY: without a capsule the managed tensor is still ours. The caller promises that it is valid, and gives it up.
    capsule.inspect_err(|_| drop(unsafe { Tensor::from_raw_legacy(managed) }))
}

/// A capsule that owns a tensor, as the base object of an array of NumPy.
#[inline]
pub(crate) fn owner_of_array(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyCapsule>> {
    let managed = tensor.into_raw();
    // SAFETY: the destructor is the one for the name, and takes a valid managed tensor.
    let capsule = unsafe { new(py, managed.cast(), OWNER_OF_ARRAY, destroy_owner_of_array) };
    // SAFETY: without a capsule the managed tensor is still ours; valid, as it was made from a tensor.
    capsule.inspect_err(|_| drop(unsafe { Tensor::from_raw(managed) }))
}

/// # Safety
/// `destructor` is right for a capsule of this name over this pointer.
unsafe fn new<'py>(
    py: Python<'py>,
    pointer: *mut c_void,
    name: &'static CStr,
    destructor: ffi::PyCapsule_Destructor,
) -> PyResult<Bound<'py, PyCapsule>> {
    let pointer = NonNull::new(pointer).expect("a managed tensor is never NULL");
    // SAFETY: the caller promises that the destructor is right for the name and the pointer. The name lives as long as the process.
    unsafe { PyCapsule::new_with_pointer_and_destructor(py, pointer, name, Some(destructor)) }
}

/// The destructor of a capsule over a versioned managed tensor.
unsafe extern "C" fn destroy_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls a destructor attached, with the dying capsule; what is in one of this
    // name is ours to give up, unless somebody renamed it.
    unsafe { destroy(capsule, VERSIONED, USED_VERSIONED, |m| drop(Tensor::from_raw(m.cast()))) }
}

/// The destructor of a capsule that owns the tensor of an array.
unsafe extern "C" fn destroy_owner_of_array(capsule: *mut ffi::PyObject) {
    // SAFETY: as above; these are never renamed.
    unsafe {
        destroy(capsule, OWNER_OF_ARRAY, USED_VERSIONED, |m| drop(Tensor::from_raw(m.cast())))
    }
}

/// The destructor of a capsule over a legacy managed tensor.
unsafe extern "C" fn destroy_legacy(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe { destroy(capsule, LEGACY, USED_LEGACY, |m| drop(Tensor::from_raw_legacy(m.cast()))) }
}

/// Calls `delete` on what the capsule holds, unless somebody has taken it.
///
/// # Safety
/// Attached; `capsule` is a capsule, and `delete` is right for the pointer of one of this name.
unsafe fn destroy(
    capsule: *mut ffi::PyObject,
    unused: &'static CStr,
    used: &'static CStr,
    delete: impl FnOnce(*mut c_void),
) {
    // SAFETY: Python runs the destructors of capsules attached, and passes the capsule (the caller's promise).
    let name = unsafe { ffi::PyCapsule_GetName(capsule) };
    // Most capsules die after they were taken, by us or by who has a text of its own that says so.
    if name == used.as_ptr() {
        return;
    }
    // SAFETY: as above: a destructor runs attached.
    let py = unsafe { Python::assume_attached() };
    keeping_pending(py, || {
        // SAFETY: as above: attached, and a capsule. `delete` gets the pointer only if the name is the one that it is right for.
        unsafe {
            let is_unused =
                name == unused.as_ptr() || ffi::PyCapsule_IsValid(capsule, unused.as_ptr()) != 0;
            if is_unused {
                delete(ffi::PyCapsule_GetPointer(capsule, unused.as_ptr()));
            }
        }
    });
}

/// Takes the managed tensor out of a capsule. The ABI is told by the capsule's name.
///
/// The capsule counts as used from then on, also when the tensor turns out to be invalid; its
/// deleter has run then.
pub(crate) fn take(capsule: &Bound<'_, PyCapsule>) -> PyResult<Imported> {
    // Without the GIL two threads could find the same capsule unused.
    if let Some(managed) =
        with_critical_section(capsule, || rename(capsule, VERSIONED, USED_VERSIONED))?
    {
        // SAFETY: the name said that this is a valid versioned managed tensor that nobody has
        // taken, and the new name says that it is ours. That nobody writes while a view is alive is
        // promised by the program (see the crate documentation).
        let tensor = unsafe {
            let version = managed.cast::<DLPackVersion>().read();
            let tensor = Tensor::from_raw(managed.cast().as_ptr());
            tensor.map(|tensor| Imported {
                version: Some(version),
                ..Imported::new(tensor, Protocol::Dlpack)
            })
        };
        return tensor.map_err(to_py_err);
    }
    if let Some(managed) = with_critical_section(capsule, || rename(capsule, LEGACY, USED_LEGACY))?
    {
        // SAFETY: as above, for a legacy managed tensor.
        let tensor = unsafe { Tensor::from_raw_legacy(managed.cast().as_ptr()) };
        return Ok(Imported::new(tensor.map_err(to_py_err)?, Protocol::LegacyDlpack));
    }
    let repr = shown(capsule);
    let is_used = |name| capsule.is_valid_checked(Some(name));
    let hint = match is_used(USED_VERSIONED) || is_used(USED_LEGACY) {
        true => "it was consumed before; ask the producer for a new one",
        false => "expected one named 'dltensor' or 'dltensor_versioned'",
    };
    Err(PyValueError::new_err(format!("{repr} holds no tensor: {hint}")))
}

/// Refuses a versioned capsule where a legacy one is wanted. It stays as it is.
pub(crate) fn expect_legacy(capsule: &Bound<'_, PyCapsule>) -> PyResult<()> {
    if !capsule.is_valid_checked(Some(VERSIONED)) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{} is versioned, and protocol='dlpack-legacy' takes legacy ones; use protocol='dlpack', or \
         leave it out",
        shown(capsule)
    )))
}

/// The pointer of a capsule that has a name, which becomes another; `None` if it has not.
fn rename(
    capsule: &Bound<'_, PyCapsule>,
    from: &'static CStr,
    to: &'static CStr,
) -> PyResult<Option<NonNull<c_void>>> {
    if !capsule.is_valid_checked(Some(from)) {
        return Ok(None);
    }
    let pointer = capsule.pointer_checked(Some(from))?;
    // SAFETY: attached, a capsule, and a name that lives for ever.
    match unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), to.as_ptr()) } {
        0 => Ok(Some(pointer)),
        _ => Err(PyErr::fetch(capsule.py())),
    }
}

/// The capsule that a producer's `__dlpack__` returned.
pub(crate) fn expect<'py>(
    answer: Bound<'py, PyAny>,
    producer: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyCapsule>> {
    answer.cast_into::<PyCapsule>().map_err(|error| {
        let name = intern!(producer.py(), "__name__");
        let type_name = |object: &Bound<'py, PyAny>| object.get_type().getattr(name);
        match (type_name(producer), type_name(&error.into_inner())) {
            (Ok(producer), Ok(found)) => pyo3::exceptions::PyTypeError::new_err(format!(
                "{producer}.__dlpack__() returned {found}; it must return a capsule"
            )),
            (Err(error), _) | (_, Err(error)) => error,
        }
    })
}
