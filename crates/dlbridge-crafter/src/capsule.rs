//! Capsules over a managed tensor, and what is taken out of one.

use std::ffi::{CStr, CString, c_void};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use dlbridge_sys::{DLManagedTensor, DLManagedTensorVersioned, DLTensor};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use crate::craft::{Block, Crafted};
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
    /// The deleter as an address; 0 if there is none.
    ///
    /// # Safety
    /// A struct of the ABI that says so, which lives.
    pub(crate) unsafe fn deleter(self) -> usize {
        // SAFETY: by contract.
        unsafe {
            match self.versioned {
                true => (*self.address.cast::<DLManagedTensorVersioned>())
                    .deleter
                    .map_or(0, |deleter| deleter as usize),
                false => (*self.address.cast::<DLManagedTensor>())
                    .deleter
                    .map_or(0, |deleter| deleter as usize),
            }
        }
    }

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
    ///
    /// # Safety
    /// A struct of the ABI that says so, which lives; its shape and strides have `ndim` numbers.
    unsafe fn fields(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        // SAFETY: by contract.
        unsafe {
            match self.versioned {
                true => {
                    let managed = self.address.cast::<DLManagedTensorVersioned>().read();
                    let fields = tensor_fields(py, &managed.dl_tensor)?;
                    let version = Some((managed.version.major, managed.version.minor));
                    add_rest(&fields, version, managed.flags, managed.manager_ctx, self.deleter())?;
                    Ok(fields)
                }
                false => {
                    let managed = self.address.cast::<DLManagedTensor>().read();
                    let fields = tensor_fields(py, &managed.dl_tensor)?;
                    add_rest(&fields, None, 0, managed.manager_ctx, self.deleter())?;
                    Ok(fields)
                }
            }
        }
    }

    /// The address `offset` bytes from the first element on.
    ///
    /// # Safety
    /// A struct of the ABI that says so, which lives.
    unsafe fn place(self, offset: isize) -> PyResult<*mut u8> {
        // SAFETY: by contract.
        let (data, byte_offset) = unsafe {
            let tensor = match self.versioned {
                true => &raw const (*self.address.cast::<DLManagedTensorVersioned>()).dl_tensor,
                false => &raw const (*self.address.cast::<DLManagedTensor>()).dl_tensor,
            };
            ((*tensor).data, (*tensor).byte_offset)
        };
        place(data, byte_offset, offset)
    }
}

/// The address `offset` bytes from the first element on.
pub(crate) fn place(data: *mut c_void, byte_offset: u64, offset: isize) -> PyResult<*mut u8> {
    let distance = isize::try_from(byte_offset).ok().and_then(|begin| begin.checked_add(offset));
    let distance = distance.ok_or_else(|| {
        PyValueError::new_err(format!("byte_offset {byte_offset} and {offset} are too far"))
    })?;
    Ok(data.cast::<u8>().wrapping_offset(distance))
}

/// The fields of a `DLTensor`; shape and strides are None where the pointer is NULL.
///
/// # Safety
/// Shape and strides have `ndim` numbers.
pub(crate) unsafe fn tensor_fields<'py>(
    py: Python<'py>,
    tensor: &DLTensor,
) -> PyResult<Bound<'py, PyDict>> {
    let dims = |dims: *const i64| {
        let count = usize::try_from(tensor.ndim).unwrap_or(0);
        // SAFETY: by contract; they need not be aligned.
        let number = |i| unsafe { dims.add(i).read_unaligned() };
        (!dims.is_null()).then(|| (0..count).map(number).collect::<Vec<_>>())
    };
    fields_with(py, tensor, dims(tensor.shape).as_deref(), dims(tensor.strides).as_deref())
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

/// A managed tensor that a consumer has taken: its deleter is to be called once. Nothing of it can be asked for
/// after that.
#[pyclass(frozen, module = "dlbridge._core._crafter")]
pub(crate) struct Held {
    managed: Managed,
    /// If it was crafted.
    block: Option<&'static Block>,
    /// If it came from a `Crafted`.
    crafted: Option<Py<Crafted>>,
    /// Whether the deleter was called from here, or is to be called by somebody else.
    is_gone: AtomicBool,
}

impl Held {
    /// What somebody has given away.
    ///
    /// # Safety
    /// Held.
    pub(crate) unsafe fn new(managed: Managed) -> Self {
        // SAFETY: by contract.
        let block = unsafe { Block::of(managed) };
        Self { managed, block, crafted: None, is_gone: AtomicBool::new(false) }
    }

    /// The struct of a crafted tensor.
    pub(crate) fn of(crafted: &Bound<'_, Crafted>) -> Self {
        let made = crafted.get();
        Self {
            managed: made.managed(),
            block: Some(made.block()),
            crafted: Some(crafted.clone().unbind()),
            is_gone: AtomicBool::new(false),
        }
    }

    /// Gives it away: it is the caller's to delete. A crafted one can be given away more than once.
    pub(crate) fn give_away(&self) -> PyResult<Managed> {
        match self.is_gone.swap(true, SeqCst) && self.block.is_none() {
            true => Err(given_back()),
            false => Ok(self.managed),
        }
    }

    /// Does something with the place `offset` bytes from the first element on, while the tensor lives.
    fn at<T>(&self, offset: isize, act: impl FnOnce(*mut u8) -> T) -> PyResult<T> {
        if let Some(block) = self.block {
            return block.at(offset, act);
        }
        if self.is_gone.load(SeqCst) {
            return Err(given_back());
        }
        // SAFETY: Held.
        Ok(act(unsafe { self.managed.place(offset) }?))
    }
}

/// Refuses to read or delete what is no more.
pub(crate) fn given_back() -> PyErr {
    PyValueError::new_err("the tensor was given back")
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
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if let Some(crafted) = &self.crafted {
            return crafted.get().fields(py);
        }
        if self.is_gone.load(SeqCst) {
            return Err(given_back());
        }
        // SAFETY: Held; Asked.
        unsafe { self.managed.fields(py) }
    }

    /// Bytes of the data, from a distance in bytes to the address of the first element on.
    #[pyo3(signature = (count, offset=0))]
    fn bytes(&self, count: usize, offset: isize) -> PyResult<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.at(offset, |place| {
            // SAFETY: Asked.
            unsafe { std::ptr::copy(place, bytes.as_mut_ptr(), count) }
        })?;
        Ok(bytes)
    }

    /// Writes bytes to the data.
    #[pyo3(signature = (bytes, offset=0))]
    fn write(&self, bytes: &[u8], offset: isize) -> PyResult<()> {
        self.at(offset, |place| {
            // SAFETY: Asked.
            unsafe { std::ptr::copy(bytes.as_ptr(), place, bytes.len()) }
        })
    }

    /// Calls the deleter, in one of the ways of `Way`.
    fn delete(&self, py: Python<'_>, way: u8) -> PyResult<()> {
        let way = Way::try_from(way)?;
        // SAFETY: given away to here.
        unsafe { delete::by(py, self.give_away()?, way) };
        Ok(())
    }

    /// Calls the deleter while an exception is pending; whether the same one is afterwards.
    fn delete_pending(&self, exception: &Bound<'_, PyAny>) -> PyResult<bool> {
        // SAFETY: given away to here.
        Ok(unsafe { delete::pending(self.give_away()?, exception) })
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
    // SAFETY: attached; a capsule of the name; Named.
    unsafe {
        let address = ffi::PyCapsule_GetPointer(capsule.as_ptr(), UNUSED[abi].as_ptr());
        if ffi::PyCapsule_SetName(capsule.as_ptr(), USED[abi].as_ptr()) != 0 {
            return Err(PyErr::fetch(capsule.py()));
        }
        Ok(Held::new(Managed { address, versioned: abi == 1 }))
    }
}
