//! A managed tensor with every field settable.

use std::alloc::{Layout, alloc_zeroed};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlbridge_sys::{
    DLDataType, DLDataTypeCode, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned,
    DLPackVersion, DLTensor,
};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::capsule::{self, Held, Managed};
use crate::record::Record;

/// Tensors that have a deleter: how many were made and deleted, and how many calls there were after the first.
static MADE: AtomicU32 = AtomicU32::new(0);
static DELETED: AtomicU32 = AtomicU32::new(0);
static REPEATED: AtomicU32 = AtomicU32::new(0);

/// How many tensors with a deleter were made, how many were deleted, and how often one was again.
#[pyfunction]
pub(crate) fn counts() -> (u32, u32, u32) {
    (MADE.load(SeqCst), DELETED.load(SeqCst), REPEATED.load(SeqCst))
}

/// The struct, and what its deleter needs. The struct comes first, so that the deleter finds the rest.
#[repr(C)]
pub(crate) struct Block {
    /// Whoever has the struct may write to it.
    managed: UnsafeCell<Either>,
    record: Record,
    data: Mutex<Data>,
    /// What the deleter deletes too, after it has let the GIL go.
    owned: Mutex<Option<Managed>>,
}

/// The data of a block. Who reads or writes it has the lock, but for a library, which has been lent it.
struct Data {
    start: *mut u8,
    len: usize,
    /// Of the struct as it was made.
    data: *mut c_void,
    byte_offset: u64,
    /// Whether the deleter was called.
    is_deleted: bool,
}

#[repr(C)]
union Either {
    legacy: ManuallyDrop<DLManagedTensor>,
    versioned: ManuallyDrop<DLManagedTensorVersioned>,
}

// SAFETY: what changes is atomic or has a lock, but for the struct, of which nothing is read or written through a block.
unsafe impl Sync for Block {}

impl Block {
    /// The block whose struct this is, if it is one: by its deleter.
    ///
    /// # Safety
    /// A struct of the ABI that says so, which lives.
    pub(crate) unsafe fn of(managed: Managed) -> Option<&'static Self> {
        // SAFETY: by contract.
        let deleter = unsafe { managed.deleter() };
        let is_made = deleter == deleter_of(true) || deleter == deleter_of(false);
        // SAFETY: DLPack: a struct that has this deleter is that of a block; Kept.
        is_made.then(|| unsafe { &*managed.address.cast::<Self>() })
    }

    /// Does something with the place `offset` bytes from the first element on; the deleter waits until it is done.
    pub(crate) fn at<T>(&self, offset: isize, act: impl FnOnce(*mut u8) -> T) -> PyResult<T> {
        let data = locked(&self.data);
        if data.is_deleted {
            return Err(capsule::given_back());
        }
        Ok(act(capsule::place(data.data, data.byte_offset, offset)?))
    }
}

/// The deleter of a versioned struct, or of a legacy one, as an address.
fn deleter_of(versioned: bool) -> usize {
    match versioned {
        true => delete_versioned as *const () as usize,
        false => delete_legacy as *const () as usize,
    }
}

/// # Safety
/// The struct of a block.
unsafe fn delete(block: *const Block) {
    // SAFETY: Kept.
    let block = unsafe { &*block };
    let (calls_before, is_attached) = block.record.note();
    if calls_before > 0 {
        REPEATED.fetch_add(1, SeqCst);
        return;
    }
    {
        let mut data = locked(&block.data);
        data.is_deleted = true;
        // SAFETY: Kept.
        unsafe { data.start.write_bytes(0xDD, data.len) };
    }
    DELETED.fetch_add(1, SeqCst);
    let owned = locked(&block.owned).take();
    if let Some(owned) = owned {
        // SAFETY: attached, as this call has found.
        let state = if is_attached { unsafe { ffi::PyEval_SaveThread() } } else { ptr::null_mut() };
        // SAFETY: given away to the block, which gives it away here.
        unsafe { owned.delete() };
        if !state.is_null() {
            // SAFETY: saved above.
            unsafe { ffi::PyEval_RestoreThread(state) };
        }
    }
}

/// What a lock holds, whatever became of those who had it.
pub(crate) fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn delete_legacy(managed: *mut DLManagedTensor) {
    // SAFETY: DLPack: called with the struct that has this deleter, which is that of a block.
    unsafe { delete(managed.cast()) }
}

unsafe extern "C" fn delete_versioned(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: DLPack: called with the struct that has this deleter, which is that of a block.
    unsafe { delete(managed.cast()) }
}

/// A managed tensor with every field settable. A `shape` or `strides` of None is a NULL pointer. The data is
/// `payload` from its byte `origin` on, at an address that is a multiple of 256 but for that, or whatever is at the
/// address `data`. `skew` is how many bytes shape and strides lie off their alignment.
#[pyclass(frozen, module = "dlbridge._core._crafter")]
pub(crate) struct Crafted {
    block: &'static Block,
    /// What the fields were made as.
    fields: Py<PyDict>,
    #[pyo3(get)]
    versioned: bool,
}

#[pymethods]
impl Crafted {
    #[new]
    #[pyo3(signature = (
        *, versioned=true, version=(1, 3), manager_ctx=0, deleter=true, flags=0, device=(1, 0),
        dtype=(2, 32, 1), ndim, shape, strides, byte_offset=0, payload, origin=0, data=None, skew=0
    ))]
    #[allow(clippy::too_many_arguments, reason = "one for each field of the struct")]
    fn new(
        py: Python<'_>,
        versioned: bool,
        version: (u32, u32),
        manager_ctx: usize,
        deleter: bool,
        flags: u64,
        device: (i32, i32),
        dtype: (u8, u8, u16),
        ndim: i32,
        shape: Option<Vec<i64>>,
        strides: Option<Vec<i64>>,
        byte_offset: u64,
        payload: &[u8],
        origin: isize,
        data: Option<usize>,
        skew: usize,
    ) -> PyResult<Self> {
        let numbers =
            shape.as_deref().map_or(0, <[_]>::len) + strides.as_deref().map_or(0, <[_]>::len);
        let dims_at = payload.len().next_multiple_of(16).checked_add(skew);
        let size = dims_at.and_then(|at| at.checked_add(8 * numbers + 16));
        let (Some(dims_at), Some(size)) = (dims_at, size) else {
            return Err(PyValueError::new_err(format!("a skew of {skew} is too large")));
        };
        let layout = Layout::from_size_align(size, 256)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        // SAFETY: not of size zero.
        let body = unsafe { alloc_zeroed(layout) };
        if body.is_null() {
            return Err(PyMemoryError::new_err(()));
        }
        // SAFETY: the body has room for the payload, and behind it for the numbers.
        let tensor = unsafe {
            ptr::copy_nonoverlapping(payload.as_ptr(), body, payload.len());
            let mut end = body.add(dims_at);
            let mut write = |dims: Option<&[i64]>| {
                let Some(dims) = dims else { return ptr::null_mut() };
                let start = end;
                ptr::copy_nonoverlapping(dims.as_ptr().cast(), end, 8 * dims.len());
                end = end.add(8 * dims.len());
                start.cast()
            };
            DLTensor {
                data: data
                    .map_or(body.wrapping_offset(origin).cast(), ptr::with_exposed_provenance_mut),
                device: DLDevice { device_type: DLDeviceType(device.0), device_id: device.1 },
                ndim,
                dtype: DLDataType { code: DLDataTypeCode(dtype.0), bits: dtype.1, lanes: dtype.2 },
                shape: write(shape.as_deref()),
                strides: write(strides.as_deref()),
                byte_offset,
            }
        };
        let manager_ctx: *mut c_void = ptr::with_exposed_provenance_mut(manager_ctx);
        let fields = capsule::fields_with(py, &tensor, shape.as_deref(), strides.as_deref())?;
        let called = if deleter { deleter_of(versioned) } else { 0 };
        let (said, flags) = if versioned { (Some(version), flags) } else { (None, 0) };
        capsule::add_rest(&fields, said, flags, manager_ctx, called)?;
        let first = tensor.data;
        let managed = match versioned {
            true => Either {
                versioned: ManuallyDrop::new(DLManagedTensorVersioned {
                    version: DLPackVersion { major: version.0, minor: version.1 },
                    manager_ctx,
                    deleter: deleter.then_some(delete_versioned),
                    flags,
                    dl_tensor: tensor,
                }),
            },
            false => Either {
                legacy: ManuallyDrop::new(DLManagedTensor {
                    dl_tensor: tensor,
                    manager_ctx,
                    deleter: deleter.then_some(delete_legacy),
                }),
            },
        };
        MADE.fetch_add(u32::from(deleter), SeqCst);
        let block = Box::leak(Box::new(Block {
            managed: UnsafeCell::new(managed),
            record: Record::default(),
            data: Mutex::new(Data {
                start: body,
                len: payload.len(),
                data: first,
                byte_offset,
                is_deleted: false,
            }),
            owned: Mutex::new(None),
        }));
        Ok(Self { block, fields: fields.unbind(), versioned })
    }

    /// The address of the struct.
    #[getter]
    fn address(&self) -> usize {
        ptr::from_ref(self.block).expose_provenance()
    }

    /// A capsule over the struct, under a name, or under none.
    fn capsule<'py>(
        &self,
        py: Python<'py>,
        name: Option<String>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::over(py, self.managed(), name)
    }

    /// Every field as it was made, as keywords of `Fields`.
    pub(crate) fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.fields.bind(py).copy()
    }

    /// How the deleter was called: (calls, thread, gil, initialized, pending).
    fn record(&self) -> (u32, u64, bool, bool, bool) {
        self.block.record.values()
    }

    /// Makes the deleter delete another tensor too, after it has let the GIL go. The other is given away.
    fn own(&self, held: &Held) -> PyResult<()> {
        *locked(&self.block.owned) = Some(held.give_away()?);
        Ok(())
    }

    /// The struct as a consumer holds it that took it.
    fn held(slf: &Bound<'_, Self>) -> Held {
        Held::of(slf)
    }
}

impl Crafted {
    pub(crate) fn block(&self) -> &'static Block {
        self.block
    }

    /// The struct, of which anybody who gets the address may read and write all, since it is in an `UnsafeCell`.
    pub(crate) fn managed(&self) -> Managed {
        Managed { address: ptr::from_ref(self.block).cast_mut().cast(), versioned: self.versioned }
    }

    /// The struct, if it is a versioned one.
    pub(crate) fn as_versioned(&self) -> PyResult<*mut DLManagedTensorVersioned> {
        match self.versioned {
            true => Ok(self.managed().address.cast()),
            false => Err(PyValueError::new_err("the exchange API knows no legacy structs")),
        }
    }
}
