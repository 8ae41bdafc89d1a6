//! Capsules over a managed tensor, and what is taken out of one.

use std::ffi::{CStr, CString, c_void};

use dlbridge_sys::{DLManagedTensor, DLManagedTensorVersioned, DLTensor};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use crate::delete::{self, Way};

/// The names of capsules that nobody has taken: legacy and versioned.
const UNUSED: [&CStr; 2] = [c"dltensor", c"dltensor_versioned"];
/// The same, taken.
const USED: [&CStr; 2] = [c"used_dltensor", c"used_dltensor_versioned"];

/// A managed tensor of either ABI, at its address.
#[derive(Clone, Copy)]
pub(crate) struct Managed {
    pub(crate) address: *mut c_void,
    pub(crate) versioned: bool,
}

// SAFETY: an address. Who uses it vouches for the place.
unsafe impl Send for Managed {}
// SAFETY: as above.
unsafe impl Sync for Managed {}

impl Managed {
    /// Calls the deleter, if there is one.
    ///
    /// # Safety
    /// A struct of the ABI that says so, which is the caller's to delete.
    pub(crate) unsafe fn delete(self) {
        // SAFETY: by contract.
        unsafe {
            match self.versioned {
                true => {
                    let managed: *mut DLManagedTensorVersioned = self.address.cast();
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                }
                false => {
                    let managed: *mut DLManagedTensor = self.address.cast();
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                }
            }
        }
    }

    /// Every field, as keywords of `Fields`.
    pub(crate) fn fields<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: Named; a test asks only for what was not deleted.
        unsafe {
            let (fields, version, flags, ctx, deleter) = match self.versioned {
                true => {
                    let managed = &*self.address.cast::<DLManagedTensorVersioned>();
                    let version = Some((managed.version.major, managed.version.minor));
                    let deleter = managed.deleter.map_or(0, |f| f as usize);
                    let fields = tensor_fields(py, &managed.dl_tensor)?;
                    (fields, version, managed.flags, managed.manager_ctx, deleter)
                }
                false => {
                    let managed = &*self.address.cast::<DLManagedTensor>();
                    let deleter = managed.deleter.map_or(0, |f| f as usize);
                    (tensor_fields(py, &managed.dl_tensor)?, None, 0, managed.manager_ctx, deleter)
                }
            };
            fields.set_item("version", version)?;
            fields.set_item("flags", flags)?;
            fields.set_item("manager_ctx", ctx.addr())?;
            fields.set_item("deleter", deleter)?;
            Ok(fields.into_any())
        }
    }
}

/// The fields of a `DLTensor`; shape and strides are None where the pointer is NULL.
///
/// # Safety
/// Shape and strides have as many numbers as there are dimensions.
pub(crate) unsafe fn tensor_fields<'py>(
    py: Python<'py>,
    tensor: &DLTensor,
) -> PyResult<Bound<'py, PyDict>> {
    let dims = |dims: *const i64| -> PyResult<Option<Bound<'py, PyTuple>>> {
        if dims.is_null() {
            return Ok(None);
        }
        let count = usize::try_from(tensor.ndim).unwrap_or(0);
        // SAFETY: by contract; they need not be aligned.
        let numbers = (0..count).map(|i| unsafe { dims.add(i).read_unaligned() });
        PyTuple::new(py, numbers.collect::<Vec<_>>()).map(Some)
    };
    let fields = PyDict::new(py);
    fields.set_item("data", tensor.data.addr())?;
    fields.set_item("device", (tensor.device.device_type.0, tensor.device.device_id))?;
    fields.set_item("ndim", tensor.ndim)?;
    fields.set_item("dtype", (tensor.dtype.code.0, tensor.dtype.bits, tensor.dtype.lanes))?;
    fields.set_item("shape", dims(tensor.shape)?)?;
    fields.set_item("strides", dims(tensor.strides)?)?;
    fields.set_item("byte_offset", tensor.byte_offset)?;
    Ok(fields)
}

/// A managed tensor that a consumer has taken: its deleter is to be called once.
#[pyclass(frozen, module = "dlbridge._core._crafter")]
pub(crate) struct Held {
    managed: Managed,
}

impl Held {
    pub(crate) fn new(managed: Managed) -> Self {
        Self { managed }
    }

    pub(crate) fn managed(&self) -> Managed {
        self.managed
    }
}

#[pymethods]
impl Held {
    /// The address of the struct.
    #[getter]
    fn address(&self) -> usize {
        self.managed.address.addr()
    }

    /// Whether the struct is a versioned one.
    #[getter]
    fn versioned(&self) -> bool {
        self.managed.versioned
    }

    /// Every field, as keywords of `Fields`.
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.managed.fields(py)
    }

    /// Bytes of the data, from a distance in bytes to the address of the first element on.
    #[pyo3(signature = (count, offset=0))]
    fn bytes(&self, count: usize, offset: isize) -> Vec<u8> {
        // SAFETY: Named; a test asks only for bytes that the tensor has.
        unsafe {
            let tensor = match self.managed.versioned {
                true => &(*self.managed.address.cast::<DLManagedTensorVersioned>()).dl_tensor,
                false => &(*self.managed.address.cast::<DLManagedTensor>()).dl_tensor,
            };
            let first = tensor.data.cast::<u8>().offset(tensor.byte_offset as isize + offset);
            (0..count).map(|i| first.add(i).read()).collect()
        }
    }

    /// Writes bytes to the data.
    #[pyo3(signature = (bytes, offset=0))]
    fn write(&self, bytes: &[u8], offset: isize) {
        // SAFETY: Named; a test writes only bytes that the tensor has.
        unsafe {
            let tensor = match self.managed.versioned {
                true => &(*self.managed.address.cast::<DLManagedTensorVersioned>()).dl_tensor,
                false => &(*self.managed.address.cast::<DLManagedTensor>()).dl_tensor,
            };
            let first = tensor.data.cast::<u8>().offset(tensor.byte_offset as isize + offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), first, bytes.len());
        }
    }

    /// Calls the deleter, in one of the ways of `Way`.
    fn delete(&self, py: Python<'_>, way: u8) -> PyResult<()> {
        delete::by(py, self.managed, Way::try_from(way)?);
        Ok(())
    }

    /// Calls the deleter while an exception is pending; whether the same one is afterwards.
    fn delete_pending(&self, exception: &Bound<'_, PyAny>) -> bool {
        delete::pending(self.managed, exception)
    }
}

/// 0 for a legacy capsule, 1 for a versioned one.
fn abi_of(capsule: *mut ffi::PyObject, names: [&CStr; 2]) -> Option<usize> {
    // SAFETY: attached; an object and a name.
    (0..2).find(|&abi| unsafe { ffi::PyCapsule_IsValid(capsule, names[abi].as_ptr()) } != 0)
}

/// What a producer owes: an unused capsule calls the deleter, and a pending exception stays.
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: attached, with a capsule that dies; Named.
    unsafe {
        let (mut kind, mut value, mut traceback) =
            (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        ffi::PyErr_Fetch(&mut kind, &mut value, &mut traceback);
        if let Some(abi) = abi_of(capsule, UNUSED) {
            let address = ffi::PyCapsule_GetPointer(capsule, UNUSED[abi].as_ptr());
            Managed { address, versioned: abi == 1 }.delete();
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
    // A capsule does not copy its name: it is kept for ever.
    let name =
        name.map(CString::new).transpose()?.map_or(std::ptr::null(), |n| n.into_raw().cast_const());
    // SAFETY: attached; not NULL; the name stays.
    unsafe {
        let capsule = ffi::PyCapsule_New(managed.address, name, Some(destroy));
        Ok(Bound::from_owned_ptr_or_err(py, capsule)?.cast_into_unchecked())
    }
}

/// The name of a capsule.
#[pyfunction]
pub(crate) fn capsule_name(capsule: &Bound<'_, PyCapsule>) -> PyResult<Option<String>> {
    // SAFETY: attached; a capsule, whose name stays as long as it does.
    unsafe {
        let name = ffi::PyCapsule_GetName(capsule.as_ptr());
        if name.is_null() {
            return PyErr::take(capsule.py()).map_or(Ok(None), Err);
        }
        Ok(Some(CStr::from_ptr(name).to_string_lossy().into_owned()))
    }
}

/// Takes the managed tensor out of a capsule, which is renamed.
#[pyfunction]
pub(crate) fn take(capsule: &Bound<'_, PyAny>) -> PyResult<Held> {
    let Some(abi) = abi_of(capsule.as_ptr(), UNUSED) else {
        return Err(PyValueError::new_err(format!("{} holds no tensor", capsule.repr()?)));
    };
    // SAFETY: attached; a capsule of the name.
    unsafe {
        let address = ffi::PyCapsule_GetPointer(capsule.as_ptr(), UNUSED[abi].as_ptr());
        if ffi::PyCapsule_SetName(capsule.as_ptr(), USED[abi].as_ptr()) != 0 {
            return Err(PyErr::fetch(capsule.py()));
        }
        Ok(Held::new(Managed { address, versioned: abi == 1 }))
    }
}
