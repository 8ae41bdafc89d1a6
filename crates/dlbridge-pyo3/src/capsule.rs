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

use crate::imported::{Imported, Protocol};
use crate::python::error::{repr_in_message, to_py_err};
use crate::python::interpreter::keeping_pending;
use crate::python::objects::attr;
use crate::python::objects::once;

const LEGACY: &CStr = c"dltensor";
pub const VERSIONED: &CStr = c"dltensor_versioned";
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
    // SAFETY: the caller promises a valid managed tensor, and gives up its ownership.
    unsafe { new(py, managed.cast(), VERSIONED) }
}

/// A capsule that takes ownership of a legacy managed tensor.
///
/// # Safety
/// `managed` is valid, and the caller gives up its ownership.
pub unsafe fn legacy(
    py: Python<'_>,
    managed: *mut DLManagedTensor,
) -> PyResult<Bound<'_, PyCapsule>> {
    // SAFETY: the caller promises a valid managed tensor, and gives up its ownership.
    unsafe { new(py, managed.cast(), LEGACY) }
}

/// A capsule that owns a tensor, as the base object of a NumPy array.
#[inline]
pub(crate) fn owner_of_array(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyCapsule>> {
    // SAFETY: the managed tensor is made from a tensor, and only the capsule gets it.
    unsafe { new(py, tensor.into_raw().cast(), OWNER_OF_ARRAY) }
}

/// A capsule that takes ownership of a managed tensor.
///
/// # Safety
/// `managed` is a valid managed tensor of the kind that [`delete`] expects for the name, and the caller gives up its
/// ownership.
#[inline]
unsafe fn new<'py>(
    py: Python<'py>,
    managed: *mut c_void,
    name: &'static CStr,
) -> PyResult<Bound<'py, PyCapsule>> {
    let pointer = NonNull::new(managed).expect("a managed tensor is never NULL");
    // SAFETY: the name lives as long as the process. The destructor finds the kind of the managed tensor by the name,
    // and the caller promises that kind.
    let capsule =
        unsafe { PyCapsule::new_with_pointer_and_destructor(py, pointer, name, Some(destroy)) };
    // SAFETY: no capsule was made, so we still own the managed tensor. The caller promises that it is valid, and of the
    // kind for the name.
    capsule.inspect_err(|_| unsafe { delete(managed, name) })
}

/// The destructor: calls the deleter, unless a consumer has taken the managed tensor.
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls a destructor attached, with the dying capsule.
    let name = unsafe { ffi::PyCapsule_GetName(capsule) };
    // Most capsules were consumed before, which gave them another name. The first byte shows it.
    // SAFETY: not NULL: the name of the capsule, a string that lives as long as the capsule has it.
    if name.is_null() || unsafe { name.cast::<u8>().read() } != b'd' {
        return;
    }
    // SAFETY: Python calls a destructor attached.
    let py = unsafe { Python::assume_attached() };
    keeping_pending(py, || {
        let names = [VERSIONED, OWNER_OF_ARRAY, LEGACY];
        let is_its_address = |known: &&CStr| known.as_ptr() == name;
        // SAFETY: attached, a capsule, and a name.
        let is_its_name =
            |known: &&CStr| unsafe { ffi::PyCapsule_IsValid(capsule, known.as_ptr()) != 0 };
        // Other code may have given the capsule an equal name at another address.
        let known = names.into_iter().find(is_its_address);
        if let Some(name) = known.or_else(|| names.into_iter().find(is_its_name)) {
            // SAFETY: attached, and the name of the capsule. A capsule that still has this name owns its managed tensor,
            // which `new` put there for this name.
            unsafe { delete(ffi::PyCapsule_GetPointer(capsule, name.as_ptr()), name) };
        }
    });
}

/// Calls the deleter of a managed tensor, which is legacy for [`LEGACY`] and versioned for all other names.
///
/// # Safety
/// `managed` is valid and of this kind, and the caller gives up its ownership.
unsafe fn delete(managed: *mut c_void, name: &'static CStr) {
    // SAFETY: the caller promises a valid managed tensor of this kind, and that its deleter has not run.
    unsafe {
        if name == LEGACY {
            drop(Tensor::from_raw_legacy(managed.cast()));
        } else {
            let managed = managed.cast::<DLManagedTensorVersioned>();
            if let Some(delete) = (*managed).deleter {
                delete(managed);
            }
        }
    }
}

/// Takes the managed tensor out of a capsule, whose name determines the ABI.
///
/// The capsule counts as consumed from then on, even if the tensor is invalid; its deleter has run then, except
/// for a misaligned tensor, which is not read.
pub fn take(capsule: &Bound<'_, PyCapsule>) -> PyResult<Imported> {
    if let Some(managed) = rename(capsule, VERSIONED, USED_VERSIONED)? {
        // SAFETY: the old name showed a versioned managed tensor that no consumer has taken, and the new name makes it
        // ours. Every version starts with its number; `from_raw` checks the alignment. The program promises that no
        // code writes while a view is alive (see the crate documentation).
        let tensor = unsafe {
            let version = managed.cast::<DLPackVersion>().read_unaligned();
            let tensor = Tensor::from_raw(managed.cast().as_ptr());
            tensor.map(|tensor| Imported::of_managed(tensor, Protocol::Dlpack, Some(version)))
        };
        return tensor.map_err(to_py_err);
    }
    if let Some(managed) = rename(capsule, LEGACY, USED_LEGACY)? {
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

/// Renames a capsule that has one name to another, and returns its pointer; `None` if it has a different name.
fn rename(
    capsule: &Bound<'_, PyCapsule>,
    from: &'static CStr,
    to: &'static CStr,
) -> PyResult<Option<NonNull<c_void>>> {
    // Without the GIL, two threads could find the same capsule unused.
    with_critical_section(capsule, || {
        if !capsule.is_valid_checked(Some(from)) {
            return Ok(None);
        }
        let pointer = capsule.pointer_checked(Some(from))?;
        // SAFETY: the thread is attached, this is a capsule, and the name is static.
        match unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), to.as_ptr()) } {
            0 => Ok(Some(pointer)),
            _ => Err(PyErr::fetch(capsule.py())),
        }
    })
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
