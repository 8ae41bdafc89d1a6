//! A managed tensor of either ABI: its fields, and the call of its deleter.

use std::ffi::c_void;
use std::{mem, thread};

use dlbridge_sys::{DLManagedTensor, DLManagedTensorVersioned, DLTensor};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::made::{self, What};

/// More dimensions than any library supports. From this count on, shape and strides are not read.
const TOO_MANY_DIMENSIONS: usize = 1025;

/// A managed tensor of either ABI, at its address.
#[derive(Clone, Copy)]
pub(crate) struct Managed {
    pub(crate) address: *mut c_void,
    pub(crate) versioned: bool,
}

// SAFETY: it holds an address, and only unsafe functions use that.
unsafe impl Send for Managed {}
// SAFETY: shared access copies the address, which only unsafe functions use.
unsafe impl Sync for Managed {}

impl Managed {
    /// The struct; ValueError for a legacy one.
    pub(crate) fn as_versioned(self) -> PyResult<*mut DLManagedTensorVersioned> {
        match self.versioned {
            true => Ok(self.address.cast()),
            false => Err(PyValueError::new_err("the exchange API knows no legacy structs")),
        }
    }

    /// Calls the deleter, if the struct has one.
    ///
    /// # Safety
    /// A live struct of the ABI in `versioned` is at the address. The caller owns it and gives it away.
    pub(crate) unsafe fn delete(self) {
        // SAFETY: the caller owns a live struct of this ABI, so its deleter may be called once.
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

    /// The description of the tensor, and its flags; 0 for a legacy struct, which lacks this field.
    ///
    /// # Safety
    /// A live struct of the ABI in `versioned` is at the address.
    pub(crate) unsafe fn tensor(self) -> (DLTensor, u64) {
        // SAFETY: a live struct of this ABI is at the address.
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
    /// A live struct of the ABI in `versioned` is at the address. Its shape and strides have `ndim` numbers, or are
    /// crafted.
    pub(crate) unsafe fn fields(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        // All fields are read before the first Python object is made. Making one can run the garbage collector, which
        // can run code that deletes the tensor.
        // SAFETY: a live struct of this ABI is at the address.
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
        // SAFETY: the struct lives, and its shape and strides have `ndim` numbers or are crafted.
        let fields = unsafe { tensor_fields(py, &self.tensor().0) }?;
        add_rest(&fields, version, flags, manager_ctx, deleter)?;
        Ok(fields)
    }
}

/// Calls a deleter.
///
/// Before 3.14, Python unwinds a thread that waits for the GIL while the interpreter shuts down. Rust frames would turn
/// that into an abort, so this stops the thread for good instead.
///
/// # Safety
/// The deleter may be called with this struct.
unsafe fn call<M>(deleter: unsafe extern "C" fn(*mut M), managed: *mut M) {
    // SAFETY: the two function types differ only in the compiler's assumption about unwinding.
    let deleter: unsafe extern "C-unwind" fn(*mut M) = unsafe { mem::transmute(deleter) };
    let stop = Stop;
    // SAFETY: the caller may call the deleter with this struct.
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

/// The numbers of a shape or of strides; None if the pointer is NULL. A crafted array is never read beyond its end,
/// whatever `ndim` says.
///
/// # Safety
/// The pointer is NULL, or has `ndim` numbers, or is that of a crafted array.
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
    // SAFETY: `count` is at most `ndim`, and at most the length of a crafted array; `read_unaligned` needs no
    // alignment.
    let number = |i| unsafe { pointer.add(i).read_unaligned() };
    Ok(Some((0..count).map(number).collect()))
}

/// The fields of a `DLTensor`; shape and strides are None if the pointer is NULL.
///
/// # Safety
/// Shape and strides are NULL, or have `ndim` numbers, or are crafted.
pub(crate) unsafe fn tensor_fields<'py>(
    py: Python<'py>,
    tensor: &DLTensor,
) -> PyResult<Bound<'py, PyDict>> {
    // SAFETY: shape and strides are as `numbers` requires, as the caller guarantees the same.
    let (shape, strides) =
        unsafe { (numbers(tensor.shape, tensor.ndim)?, numbers(tensor.strides, tensor.ndim)?) };
    fields_with(py, tensor, shape.as_deref(), strides.as_deref())
}

/// The fields of a `DLTensor` whose shape and strides were read already.
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

/// Adds the fields that a managed tensor has beyond its `DLTensor`.
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
