//! A managed tensor of either ABI: its fields, and the call of its deleter.

use std::ffi::c_void;
use std::{mem, thread};

use dlbridge_sys::{DLManagedTensor, DLManagedTensorVersioned, DLTensor};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::made::{self, What};

/// More dimensions than any library has: the numbers behind the pointers are not read.
const TOO_MANY_DIMENSIONS: usize = 1025;

/// A managed tensor of either ABI, at its address.
#[derive(Clone, Copy)]
pub(crate) struct Managed {
    pub(crate) address: *mut c_void,
    pub(crate) versioned: bool,
}

// SAFETY: an address, which is not used without an unsafe function.
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
                        call(deleter, managed);
                    }
                }
                false => {
                    let managed: *mut DLManagedTensor = self.address.cast();
                    if let Some(deleter) = (*managed).deleter {
                        call(deleter, managed);
                    }
                }
            }
        }
    }

    /// The description of the tensor, and its flags; a legacy struct has none.
    ///
    /// # Safety
    /// A struct of the ABI that says so, which lives.
    pub(crate) unsafe fn tensor(self) -> (DLTensor, u64) {
        // SAFETY: by contract.
        unsafe {
            match self.versioned {
                true => {
                    let managed: *const DLManagedTensorVersioned = self.address.cast();
                    ((*managed).dl_tensor, (*managed).flags)
                }
                false => ((*self.address.cast::<DLManagedTensor>()).dl_tensor, 0),
            }
        }
    }

    /// Every field, as keywords of `Fields`.
    ///
    /// # Safety
    /// A struct of the ABI that says so, which lives; its shape and strides have `ndim` numbers, or are crafted.
    pub(crate) unsafe fn fields(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        // All is read before the first object of Python is made: that can run the garbage collector, and the collector
        // can run code that has the tensor deleted.
        // SAFETY: by contract.
        let (version, flags, manager_ctx, deleter) = unsafe {
            match self.versioned {
                true => {
                    let managed: *const DLManagedTensorVersioned = self.address.cast();
                    let version = ((*managed).version.major, (*managed).version.minor);
                    let deleter = (*managed).deleter.map_or(0, |deleter| deleter as usize);
                    (Some(version), (*managed).flags, (*managed).manager_ctx, deleter)
                }
                false => {
                    let managed: *const DLManagedTensor = self.address.cast();
                    let deleter = (*managed).deleter.map_or(0, |deleter| deleter as usize);
                    (None, 0, (*managed).manager_ctx, deleter)
                }
            }
        };
        // SAFETY: by contract.
        let fields = unsafe { tensor_fields(py, &self.tensor().0) }?;
        add_rest(&fields, version, flags, manager_ctx, deleter)?;
        Ok(fields)
    }
}

/// Calls a deleter. One that waits for the Python interpreter while that goes is unwound by Python (before 3.14), which Rust
/// frames would turn into an abort: the thread is stopped for good instead.
///
/// # Safety
/// That of the deleter.
unsafe fn call<M>(deleter: unsafe extern "C" fn(*mut M), managed: *mut M) {
    // SAFETY: the two types differ only in what the compiler assumes of unwinding.
    let deleter: unsafe extern "C-unwind" fn(*mut M) = unsafe { mem::transmute(deleter) };
    let stop = Stop;
    // SAFETY: by contract.
    unsafe { deleter(managed) };
    mem::forget(stop);
}

/// Stops the thread for good when something other than a Rust panic unwinds it.
struct Stop;

impl Drop for Stop {
    fn drop(&mut self) {
        while !thread::panicking() {
            thread::park();
        }
    }
}

/// The numbers of a shape or of strides; None where the pointer is NULL. Of crafted ones there are as many as were crafted,
/// whatever `ndim` says.
///
/// # Safety
/// There are `ndim` numbers, or they are crafted.
pub(crate) unsafe fn numbers(pointer: *const i64, ndim: i32) -> PyResult<Option<Vec<i64>>> {
    if pointer.is_null() {
        return Ok(None);
    }
    let ndim = usize::try_from(ndim).unwrap_or(0);
    let count = match made::at(pointer.addr()) {
        Some(What::Numbers(count)) => ndim.min(count),
        _ if ndim >= TOO_MANY_DIMENSIONS => {
            return Err(PyValueError::new_err(format!(
                "the struct says that it has {ndim} dimensions; at most {} are read",
                TOO_MANY_DIMENSIONS - 1
            )));
        }
        _ => ndim,
    };
    // SAFETY: by contract, and as was crafted; they need not be aligned.
    let number = |i| unsafe { pointer.add(i).read_unaligned() };
    Ok(Some((0..count).map(number).collect()))
}

/// The fields of a `DLTensor`; shape and strides are None where the pointer is NULL.
///
/// # Safety
/// Shape and strides have `ndim` numbers, or are crafted.
pub(crate) unsafe fn tensor_fields<'py>(
    py: Python<'py>,
    tensor: &DLTensor,
) -> PyResult<Bound<'py, PyDict>> {
    // SAFETY: by contract.
    let (shape, strides) =
        unsafe { (numbers(tensor.shape, tensor.ndim)?, numbers(tensor.strides, tensor.ndim)?) };
    fields_with(py, tensor, shape.as_deref(), strides.as_deref())
}

/// The same, with the numbers of shape and strides.
pub(crate) fn fields_with<'py>(
    py: Python<'py>,
    tensor: &DLTensor,
    shape: Option<&[i64]>,
    strides: Option<&[i64]>,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("data", tensor.data.addr())?;
    fields.set_item("device", (tensor.device.device_type.0, tensor.device.device_id))?;
    fields.set_item("ndim", tensor.ndim)?;
    fields.set_item("dtype", (tensor.dtype.code.0, tensor.dtype.bits, tensor.dtype.lanes))?;
    fields.set_item("shape", shape.map(|dims| PyTuple::new(py, dims)).transpose()?)?;
    fields.set_item("strides", strides.map(|dims| PyTuple::new(py, dims)).transpose()?)?;
    fields.set_item("byte_offset", tensor.byte_offset)?;
    Ok(fields)
}

/// Adds what a managed tensor has beyond its `DLTensor`.
pub(crate) fn add_rest(
    fields: &Bound<'_, PyDict>,
    version: Option<(u32, u32)>,
    flags: u64,
    manager_ctx: *mut c_void,
    deleter: usize,
) -> PyResult<()> {
    fields.set_item("version", version)?;
    fields.set_item("flags", flags)?;
    fields.set_item("manager_ctx", manager_ctx.addr())?;
    fields.set_item("deleter", deleter)
}
