//! Capsules, which pass a managed tensor from the producer to the consumer.
//!
//! A capsule named `dltensor` or `dltensor_versioned` holds a tensor that has not been consumed. The consumer renames
//! the capsule with the prefix `used_`. The destructor of a capsule that still has its first name calls the deleter.

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

use crate::classes::attr;
use crate::error::{repr_in_message, to_py_err};
use crate::imported::{Imported, Protocol};
use crate::interpreter::keeping_pending;
use crate::once::once;

const LEGACY: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const USED_LEGACY: &CStr = c"used_dltensor";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";

/// The name of a capsule that owns the versioned managed tensor behind a NumPy array.
pub(crate) const OWNER_OF_ARRAY: &CStr = c"dlbridge_owner_of_array";

/// The `max_version` that imports request.
pub fn max_version(py: Python<'_>) -> PyResult<&Bound<'_, PyTuple>> {
    static VERSION: PyOnceLock<Py<PyTuple>> = PyOnceLock::new();
    let make = || Ok((DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION).into_pyobject(py)?.unbind());
    once(&VERSION, py, make).map(|version| version.bind(py))
}

/// A capsule that takes ownership of a versioned managed tensor.
///
/// # Safety
/// `managed` is valid, and the caller gives up its ownership.
#[inline]
pub unsafe fn versioned(
    py: Python<'_>,
    managed: *mut DLManagedTensorVersioned,
) -> PyResult<Bound<'_, PyCapsule>> {
    // SAFETY: the destructor is the one for this name, and takes a valid managed tensor.
    let capsule = unsafe { new(py, managed.cast(), VERSIONED, destroy_versioned) };
    // SAFETY: no capsule was made, so we still own the managed tensor. The caller promises that it is valid, and
    // gives up its ownership.
    capsule.inspect_err(|_| drop(unsafe { Tensor::from_raw(managed) }))
}

/// A capsule that takes ownership of a legacy managed tensor.
///
/// # Safety
/// `managed` is valid, and the caller gives up its ownership.
pub unsafe fn legacy(
    py: Python<'_>,
    managed: *mut DLManagedTensor,
) -> PyResult<Bound<'_, PyCapsule>> {
    // SAFETY: the destructor is the one for the name, and takes a valid managed tensor.
    let capsule = unsafe { new(py, managed.cast(), LEGACY, destroy_legacy) };
    // SAFETY: no capsule was made, so we still own the managed tensor. The caller promises that it is valid, and
    // gives up its ownership.
    capsule.inspect_err(|_| drop(unsafe { Tensor::from_raw_legacy(managed) }))
}

/// A capsule that owns a tensor, as the base object of a NumPy array.
#[inline]
pub(crate) fn owner_of_array(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyCapsule>> {
    let managed = tensor.into_raw();
    // SAFETY: the destructor is the one for the name, and takes a valid managed tensor.
    let capsule = unsafe { new(py, managed.cast(), OWNER_OF_ARRAY, destroy_owner_of_array) };
    // SAFETY: no capsule was made, so we still own the managed tensor, which is valid because it was made from a
    // tensor.
    capsule.inspect_err(|_| drop(unsafe { Tensor::from_raw(managed) }))
}

/// # Safety
/// `destructor` is right for a capsule of this name over this pointer.
#[inline]
unsafe fn new<'py>(
    py: Python<'py>,
    pointer: *mut c_void,
    name: &'static CStr,
    destructor: ffi::PyCapsule_Destructor,
) -> PyResult<Bound<'py, PyCapsule>> {
    let pointer = NonNull::new(pointer).expect("a managed tensor is never NULL");
    // SAFETY: the caller promises that the destructor is right for the name and the pointer. The name lives as long as
    // the process.
    unsafe { PyCapsule::new_with_pointer_and_destructor(py, pointer, name, Some(destructor)) }
}

/// The destructor of a capsule over a versioned managed tensor.
unsafe extern "C" fn destroy_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls a destructor attached, with the dying capsule. If it still has this name, no consumer has
    // taken its managed tensor, so the capsule owns it.
    unsafe { destroy(capsule, VERSIONED, |m| delete_versioned(m.cast())) }
}

/// The destructor of a capsule that owns an array's tensor.
unsafe extern "C" fn destroy_owner_of_array(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls a destructor attached, with the dying capsule. No code renames these capsules or takes their
    // managed tensors, so the capsule owns its own.
    unsafe { destroy(capsule, OWNER_OF_ARRAY, |m| delete_versioned(m.cast())) }
}

/// Calls the deleter of a managed tensor.
///
/// # Safety
/// `managed` is valid, and the caller gives up its ownership.
unsafe fn delete_versioned(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: the caller promises a valid managed tensor, and that its deleter has not run.
    unsafe {
        if let Some(delete) = (*managed).deleter {
            delete(managed);
        }
    }
}

/// The destructor of a capsule over a legacy managed tensor.
unsafe extern "C" fn destroy_legacy(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls a destructor attached, with the dying capsule. If it still has this name, no consumer has
    // taken its legacy managed tensor, so the capsule owns it.
    unsafe { destroy(capsule, LEGACY, |m| drop(Tensor::from_raw_legacy(m.cast()))) }
}

/// Calls `delete` on the capsule's pointer, unless a consumer has taken it.
///
/// # Safety
/// The thread is attached, `capsule` is a capsule, and `delete` is right for the pointer of a capsule of this name.
unsafe fn destroy(
    capsule: *mut ffi::PyObject,
    unused: &'static CStr,
    delete: impl FnOnce(*mut c_void),
) {
    // SAFETY: Python runs the destructors of capsules attached, and passes the capsule (the caller's promise).
    let name = unsafe { ffi::PyCapsule_GetName(capsule) };
    // Most capsules were consumed before, which gave them another name. The first byte shows it.
    // SAFETY: not NULL: the name of the capsule, a string that lives as long as the capsule has it.
    if name.is_null() || unsafe { name.cast::<u8>().read() } != unused.to_bytes_with_nul()[0] {
        return;
    }
    // SAFETY: the caller promises that this thread is attached.
    let py = unsafe { Python::assume_attached() };
    keeping_pending(py, || {
        // SAFETY: the caller promises an attached thread and a capsule. `delete` gets the pointer only if the capsule
        // has the name that it is right for.
        unsafe {
            let is_unused =
                name == unused.as_ptr() || ffi::PyCapsule_IsValid(capsule, unused.as_ptr()) != 0;
            if is_unused {
                delete(ffi::PyCapsule_GetPointer(capsule, unused.as_ptr()));
            }
        }
    });
}

/// Takes the managed tensor out of a capsule, whose name determines the ABI.
///
/// The capsule counts as consumed from then on, even if the tensor is invalid; its deleter has run then, except
/// for a misaligned tensor, which is not read.
pub fn take(capsule: &Bound<'_, PyCapsule>) -> PyResult<Imported> {
    // Without the GIL, two threads could find the same capsule unused.
    if let Some(managed) =
        with_critical_section(capsule, || rename(capsule, VERSIONED, USED_VERSIONED))?
    {
        // SAFETY: the old name showed a versioned managed tensor that no consumer has taken, and the new name makes it
        // ours. Every version starts with its number; `from_raw` checks the alignment. The program promises that no
        // code writes while a view is alive (see the crate documentation).
        let tensor = unsafe {
            let version = managed.cast::<DLPackVersion>().read_unaligned();
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
        // SAFETY: the old name showed a valid legacy managed tensor that no consumer has taken, and the new name makes
        // it ours. The program promises that no code writes while a view is alive (see the crate documentation).
        let tensor = unsafe { Tensor::from_raw_legacy(managed.cast().as_ptr()) };
        return Ok(Imported::new(tensor.map_err(to_py_err)?, Protocol::LegacyDlpack));
    }
    let repr = repr_in_message(capsule);
    let is_used = |name| capsule.is_valid_checked(Some(name));
    let hint = match is_used(USED_VERSIONED) || is_used(USED_LEGACY) {
        true => "it was consumed before; ask the producer for a new one",
        false => "expected one named 'dltensor' or 'dltensor_versioned'",
    };
    Err(PyValueError::new_err(format!("{repr} holds no tensor: {hint}")))
}

/// Refuses a versioned capsule where a legacy one is requested, and leaves it unconsumed.
pub fn expect_legacy(capsule: &Bound<'_, PyCapsule>) -> PyResult<()> {
    if !capsule.is_valid_checked(Some(VERSIONED)) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{} is versioned, and protocol='dlpack-legacy' takes legacy ones; use protocol='dlpack', or \
         leave protocol out",
        repr_in_message(capsule)
    )))
}

/// Renames a capsule that has one name to another, and returns its pointer; `None` if it has a different name.
fn rename(
    capsule: &Bound<'_, PyCapsule>,
    from: &'static CStr,
    to: &'static CStr,
) -> PyResult<Option<NonNull<c_void>>> {
    if !capsule.is_valid_checked(Some(from)) {
        return Ok(None);
    }
    let pointer = capsule.pointer_checked(Some(from))?;
    // SAFETY: the thread is attached, this is a capsule, and the name is static.
    match unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), to.as_ptr()) } {
        0 => Ok(Some(pointer)),
        _ => Err(PyErr::fetch(capsule.py())),
    }
}

/// Checks that a producer's `__dlpack__` returned a capsule.
pub fn expect<'py>(
    answer: Bound<'py, PyAny>,
    producer: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyCapsule>> {
    answer.cast_into::<PyCapsule>().map_err(|error| {
        let type_name = |object: &Bound<'py, PyAny>| attr(&object.get_type(), "__name__");
        match (type_name(producer), type_name(&error.into_inner())) {
            (Ok(producer), Ok(found)) => pyo3::exceptions::PyTypeError::new_err(format!(
                "{producer}.__dlpack__() returned {found}; it must return a capsule"
            )),
            (Err(error), _) | (_, Err(error)) => error,
        }
    })
}
