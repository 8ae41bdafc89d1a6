//! A managed tensor with every field settable.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use dlbridge_sys::{
    DLDataType, DLDataTypeCode, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned,
    DLPackVersion, DLTensor,
};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

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
    managed: Either,
    record: Record,
    body: *mut u8,
    layout: Layout,
    /// What the deleter deletes too, after it has let the GIL go.
    owned: Mutex<Option<Managed>>,
}

#[repr(C)]
union Either {
    legacy: std::mem::ManuallyDrop<DLManagedTensor>,
    versioned: std::mem::ManuallyDrop<DLManagedTensorVersioned>,
}

/// # Safety
/// Kept: the struct of a block.
unsafe fn delete(block: *const Block) {
    // SAFETY: Kept.
    let block = unsafe { &*block };
    if block.record.note() > 0 {
        REPEATED.fetch_add(1, SeqCst);
        return;
    }
    DELETED.fetch_add(1, SeqCst);
    let owned = block.owned.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(owned) = owned {
        let attached = block.record.gil();
        // SAFETY: attached, as the record says.
        let state = if attached { unsafe { ffi::PyEval_SaveThread() } } else { ptr::null_mut() };
        // SAFETY: the test gave it away.
        unsafe { owned.delete() };
        if !state.is_null() {
            // SAFETY: saved above.
            unsafe { ffi::PyEval_RestoreThread(state) };
        }
    }
    // SAFETY: the first call, so that the body was not freed.
    unsafe {
        block.body.write_bytes(0xDD, block.layout.size());
        dealloc(block.body, block.layout);
    }
}

unsafe extern "C" fn delete_legacy(managed: *mut DLManagedTensor) {
    // SAFETY: made here, at the beginning of a block.
    unsafe { delete(managed.cast()) }
}

unsafe extern "C" fn delete_versioned(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: made here, at the beginning of a block.
    unsafe { delete(managed.cast()) }
}

/// A managed tensor with every field settable. A `shape` or `strides` of None is a NULL pointer. The data is
/// `payload` from its byte `origin` on, at an address that is a multiple of 256 but for that, or whatever is at the
/// address `data`. `skew` is how many bytes shape and strides lie off their alignment.
#[pyclass(frozen, module = "dlbridge._core._crafter")]
pub(crate) struct Crafted {
    block: &'static Block,
    #[pyo3(get)]
    versioned: bool,
}

// SAFETY: a block is written by its deleter alone, which touches the body once, and the rest by atomics.
unsafe impl Send for Crafted {}
// SAFETY: as above.
unsafe impl Sync for Crafted {}

#[pymethods]
impl Crafted {
    #[new]
    #[pyo3(signature = (
        *, versioned=true, version=(1, 3), manager_ctx=0, deleter=true, flags=0, device=(1, 0),
        dtype=(2, 32, 1), ndim, shape, strides, byte_offset=0, payload, origin=0, data=None, skew=0
    ))]
    #[allow(clippy::too_many_arguments, reason = "one for each field of the struct")]
    fn new(
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
        let dims_at = payload.len().next_multiple_of(16) + skew;
        let layout = Layout::from_size_align(dims_at + 8 * numbers + 16, 256)
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
        let managed = match versioned {
            true => Either {
                versioned: std::mem::ManuallyDrop::new(DLManagedTensorVersioned {
                    version: DLPackVersion { major: version.0, minor: version.1 },
                    manager_ctx,
                    deleter: deleter.then_some(delete_versioned),
                    flags,
                    dl_tensor: tensor,
                }),
            },
            false => Either {
                legacy: std::mem::ManuallyDrop::new(DLManagedTensor {
                    dl_tensor: tensor,
                    manager_ctx,
                    deleter: deleter.then_some(delete_legacy),
                }),
            },
        };
        MADE.fetch_add(u32::from(deleter), SeqCst);
        let (record, owned) = (Record::default(), Mutex::new(None));
        let block = Box::leak(Box::new(Block { managed, record, body, layout, owned }));
        Ok(Self { block, versioned })
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

    /// Every field, as keywords of `Fields`.
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.managed().fields(py)
    }

    /// How the deleter was called: (calls, thread, gil, initialized, pending).
    fn record(&self) -> (u32, u64, bool, bool, bool) {
        self.block.record.values()
    }

    /// Makes the deleter delete another tensor too, after it has let the GIL go.
    fn own(&self, held: &Held) {
        *self.block.owned.lock().unwrap_or_else(PoisonError::into_inner) = Some(held.managed());
    }

    /// The struct as a consumer holds it that took it.
    fn held(&self) -> Held {
        Held::new(self.managed())
    }
}

impl Crafted {
    pub(crate) fn managed(&self) -> Managed {
        let address = ptr::from_ref(self.block).cast_mut().cast();
        Managed { address, versioned: self.versioned }
    }
}
