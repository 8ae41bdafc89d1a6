//! Makes capsules over managed tensors, and takes managed tensors out of capsules.

use std::ffi::{CStr, CString, c_void};

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::block::Block;
use crate::held::Held;
use crate::made;
use crate::managed::Managed;

/// The names of unconsumed capsules: legacy and versioned.
const UNUSED: [&CStr; 2] = [c"dltensor", c"dltensor_versioned"];
/// The names of consumed capsules.
const USED: [&CStr; 2] = [c"used_dltensor", c"used_dltensor_versioned"];

/// Returns 0 for a legacy capsule, 1 for a versioned one, None for any other object.
fn abi_of(capsule: *mut ffi::PyObject, names: [&CStr; 2]) -> Option<usize> {
    // SAFETY: attached; `capsule` is an object, and the name a C string.
    (0..2).find(|&abi| unsafe { ffi::PyCapsule_IsValid(capsule, names[abi].as_ptr()) } != 0)
}

/// The managed tensor at an address, of the ABI in the capsule's name.
///
/// That name may lie about a crafted tensor, so the ABI of a crafted one comes from its block.
fn managed_at(address: *mut c_void, abi: usize) -> PyResult<Managed> {
    match (Block::at(address.addr()), made::at(address.addr())) {
        (Some(block), _) => Ok(block.managed()),
        (None, Some(_)) => Err(PyValueError::new_err("the capsule holds a table and no tensor")),
        (None, None) => Ok(Managed { address, versioned: abi == 1 }),
    }
}

/// The destructor of our capsules. Calls the deleter of an unconsumed capsule, and keeps a pending exception.
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this attached, with the capsule that it destroys. Its name says which struct it holds
    // (Named).
    unsafe {
        let (mut kind, mut value, mut traceback) =
            (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        ffi::PyErr_Fetch(&mut kind, &mut value, &mut traceback);
        if let Some(abi) = abi_of(capsule, UNUSED) {
            let address = ffi::PyCapsule_GetPointer(capsule, UNUSED[abi].as_ptr());
            if let Ok(managed) = managed_at(address, abi) {
                managed.delete();
            }
        }
        ffi::PyErr_Restore(kind, value, traceback);
    }
}

/// A capsule over a managed tensor.
pub(crate) fn over(
    py: Python<'_>,
    managed: Managed,
    name: Option<String>,
) -> PyResult<Bound<'_, PyCapsule>> {
    // A capsule does not copy its name, so the name is never freed.
    let name =
        name.map(CString::new).transpose()?.map_or(std::ptr::null(), |n| n.into_raw().cast_const());
    // SAFETY: attached; the address of a struct is not NULL; the name is never freed.
    unsafe {
        let capsule = ffi::PyCapsule_New(managed.address, name, Some(destroy));
        Ok(Bound::from_owned_ptr_or_err(py, capsule)?.cast_into_unchecked())
    }
}

/// The name of a capsule.
#[pyfunction]
pub(crate) fn capsule_name(capsule: &Bound<'_, PyCapsule>) -> PyResult<Option<String>> {
    // SAFETY: attached; `capsule` is a capsule, whose name lives as long as it does.
    unsafe {
        let name = ffi::PyCapsule_GetName(capsule.as_ptr());
        if name.is_null() {
            return PyErr::take(capsule.py()).map_or(Ok(None), Err);
        }
        Ok(Some(CStr::from_ptr(name).to_string_lossy().into_owned()))
    }
}

/// Takes the managed tensor out of a capsule, and renames the capsule to a consumed one.
#[pyfunction]
pub(crate) fn take(capsule: &Bound<'_, PyAny>) -> PyResult<Held> {
    let Some(abi) = abi_of(capsule.as_ptr(), UNUSED) else {
        return Err(PyValueError::new_err(format!("{} holds no tensor", capsule.repr()?)));
    };
    // SAFETY: attached; `abi_of` found a capsule with this name, which says which struct it holds (Named).
    unsafe {
        let address = ffi::PyCapsule_GetPointer(capsule.as_ptr(), UNUSED[abi].as_ptr());
        let managed = managed_at(address, abi)?;
        if ffi::PyCapsule_SetName(capsule.as_ptr(), USED[abi].as_ptr()) != 0 {
            return Err(PyErr::fetch(capsule.py()));
        }
        Ok(Held::new(managed))
    }
}
