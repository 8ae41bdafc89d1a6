//! Addresses of DLPack's structs, for C libraries that Python calls through `ctypes` or `cffi`.

use std::ptr;
use std::sync::{Mutex, PoisonError};

use dlbridge::ArcTensor;
use dlbridge_pyo3::capsule;
use dlbridge_pyo3::import_options::{ImportOptions, expect_bool, wrong_type};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};

use crate::import::options::{integer, wrong_value};
use crate::tensor::{TensorObject, traverse};

/// The context manager that `Tensor.dltensor` returns.
#[pyclass(name = "_DLTensor", module = "dlbridge._core", frozen)]
pub(crate) struct DLTensorScope(Mutex<Option<ArcTensor>>);

impl DLTensorScope {
    /// A scope for the struct of a tensor.
    pub(crate) fn of(tensor: &TensorObject, writable: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let writable = writable.map_or(Ok(false), |writable| expect_bool("writable", writable))?;
        if writable && tensor.is_read_only() {
            return Err(PyBufferError::new_err(
                "the tensor is read-only, and writable=True is for C code that writes; copy it first, for example with \
                 dlbridge.asdlpack(t, writable=True)",
            ));
        }
        Ok(Self(Mutex::new(Some(tensor.for_consumer()?))))
    }
}

#[pymethods]
impl DLTensorScope {
    /// The address of the struct.
    fn __enter__(&self) -> PyResult<usize> {
        let tensor = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tensor = tensor.as_ref();
        let tensor = tensor
            .ok_or_else(|| PyValueError::new_err("the block has ended; call t.dltensor() again"))?;
        // The struct is a field of the managed tensor, which the handle keeps.
        Ok(tensor.as_raw().expose_provenance() + DL_TENSOR)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // The collector runs attached, as every thread that has the lock.
        match self.0.try_lock().as_deref() {
            Ok(Some(tensor)) => traverse(tensor, &visit),
            _ => Ok(()),
        }
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        let tensor = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Dropped behind the lock: its owner may run Python code.
        drop(tensor);
    }
}

const DL_TENSOR: usize = std::mem::offset_of!(dlbridge::sys::DLManagedTensorVersioned, dl_tensor);

/// Take over a managed tensor of DLPack, by the address that C code returned.
///
/// address is that of a DLManagedTensorVersioned, or with legacy=True of a DLManagedTensor, which is deleted with the
/// result. Its data is not checked beyond what the struct shows: a wrong address ends the process.
///
/// Raises TypeError for anything but an integer, ValueError for an address that cannot be one, BufferError as asdlpack.
#[pyfunction]
#[pyo3(signature = (address, /, *, legacy=None), text_signature = "(address, /, *, legacy=False)")]
pub(crate) fn from_managed<'py>(
    address: &Bound<'py, PyAny>,
    legacy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, TensorObject>> {
    const EXPECTED: &str = "the address of a managed tensor, a multiple of 8";
    let py = address.py();
    let legacy = legacy.map_or(Ok(false), |legacy| expect_bool("legacy", legacy))?;
    let number = integer(address)?.ok_or_else(|| wrong_type("address", EXPECTED, address))?;
    let place = number.extract::<usize>().ok().filter(|place| *place != 0 && place % 8 == 0);
    let place = place.ok_or_else(|| wrong_value("address", EXPECTED, &number))?;
    // SAFETY: the caller of the function promises a valid managed tensor of this kind, and gives up its ownership; Python
    // code that calls C functions by addresses can break the process without this function too.
    let capsule = unsafe {
        match legacy {
            true => capsule::legacy(py, ptr::with_exposed_provenance_mut(place)),
            false => capsule::versioned(py, ptr::with_exposed_provenance_mut(place)),
        }
    }?;
    TensorObject::import(capsule.as_any(), &ImportOptions::default())
}
