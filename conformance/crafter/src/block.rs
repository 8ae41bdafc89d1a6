//! A crafted struct and the state of its deleter.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use dlbridge_sys::{DLManagedTensor, DLManagedTensorVersioned};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::extent;
use crate::made::{self, What, locked};
use crate::managed::Managed;
use crate::record::Record;

/// For tensors with a deleter: how many were made, how many were deleted, and how many deleter calls were repeated.
static MADE: AtomicU32 = AtomicU32::new(0);
static DELETED: AtomicU32 = AtomicU32::new(0);
static REPEATED: AtomicU32 = AtomicU32::new(0);

/// Returns how many tensors with a deleter were made, how many were deleted, and how many deleter calls were repeated.
#[pyfunction]
pub(crate) fn counts() -> (u32, u32, u32) {
    (MADE.load(SeqCst), DELETED.load(SeqCst), REPEATED.load(SeqCst))
}

/// The error for reading or deleting a tensor after its deletion.
pub(crate) fn given_back() -> PyErr {
    PyValueError::new_err("the tensor was given back")
}

/// The struct, and the state of its deleter. The struct comes first, so that the deleter finds the rest.
#[repr(C)]
pub(crate) struct Block {
    /// A library that has the struct may write to it.
    managed: UnsafeCell<Either>,
    versioned: bool,
    record: Record,
    data: Mutex<Data>,
    /// Another tensor that the deleter deletes too, after it has released the GIL.
    owned: Mutex<Option<Managed>>,
}

/// The data of a block. The crafter reads and writes it under the lock; a library that has the struct needs no lock.
pub(crate) struct Data {
    /// The bytes that were crafted.
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
    /// `data` and `byte_offset` of the struct as it was made.
    pub(crate) data: *mut c_void,
    pub(crate) byte_offset: u64,
    /// Set if a test chose the address in `data`. The test then guarantees that the memory exists.
    pub(crate) elsewhere: bool,
    /// The deleter sets it.
    pub(crate) is_deleted: bool,
}

#[repr(C)]
pub(crate) union Either {
    pub(crate) legacy: ManuallyDrop<DLManagedTensor>,
    pub(crate) versioned: ManuallyDrop<DLManagedTensorVersioned>,
}

// SAFETY: every field that changes is atomic or behind a lock, except the struct. That is in an `UnsafeCell`, and used
// only through its address.
unsafe impl Sync for Block {}

impl Block {
    /// Makes a block that is never freed.
    pub(crate) fn keep(
        managed: Either,
        versioned: bool,
        has_deleter: bool,
        data: Data,
    ) -> &'static Self {
        MADE.fetch_add(u32::from(has_deleter), SeqCst);
        let block = Box::leak(Box::new(Self {
            managed: UnsafeCell::new(managed),
            versioned,
            record: Record::default(),
            data: Mutex::new(data),
            owned: Mutex::new(None),
        }));
        made::add(ptr::from_mut(block).expose_provenance(), What::Struct);
        block
    }

    /// The block whose struct is at an address; None if the address is not that of a crafted struct.
    pub(crate) fn at(address: usize) -> Option<&'static Self> {
        match made::at(address)? {
            // SAFETY: `keep` put a block at this address, which is never freed (Kept).
            What::Struct => Some(unsafe { &*ptr::with_exposed_provenance(address) }),
            _ => None,
        }
    }

    /// The struct. A library that gets the address may read and write all of it, since it is in an `UnsafeCell`.
    pub(crate) fn managed(&self) -> Managed {
        Managed { address: ptr::from_ref(self).cast_mut().cast(), versioned: self.versioned }
    }

    /// Calls `act` with `count` bytes that begin `offset` bytes after the first element. The deleter waits meanwhile.
    pub(crate) fn bytes<T>(
        &self,
        offset: isize,
        count: usize,
        act: impl FnOnce(*mut u8) -> T,
    ) -> PyResult<T> {
        let data = locked(&self.data);
        if data.is_deleted {
            return Err(given_back());
        }
        let place = extent::place(data.data, data.byte_offset, offset, count)?;
        if !data.elsewhere {
            let first = place.addr() as i128 - offset as i128;
            let start = data.start.addr() as i128 - first;
            extent::check(&(start..start + data.len as i128), offset, count)?;
        }
        Ok(act(place))
    }

    /// How the deleter was called.
    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// Makes the deleter delete another tensor too.
    pub(crate) fn own(&self, owned: impl FnOnce() -> PyResult<Managed>) -> PyResult<()> {
        let mut place = locked(&self.owned);
        if place.is_some() {
            return Err(PyValueError::new_err("the tensor owns another one already"));
        }
        if locked(&self.data).is_deleted {
            return Err(given_back());
        }
        *place = Some(owned()?);
        Ok(())
    }
}

/// # Safety
/// `block` is the address of a block.
unsafe fn delete(block: *const Block) {
    // SAFETY: the caller passes a block, which is never freed (Kept).
    let block = unsafe { &*block };
    let (calls_before, is_attached) = block.record.note();
    if calls_before > 0 {
        REPEATED.fetch_add(1, SeqCst);
        return;
    }
    {
        let mut data = locked(&block.data);
        data.is_deleted = true;
        // SAFETY: `start` has `len` bytes that are never freed (Kept), and the lock keeps the crafter's accesses away.
        unsafe { data.start.write_bytes(0xDD, data.len) };
    }
    DELETED.fetch_add(1, SeqCst);
    let owned = locked(&block.owned).take();
    if let Some(owned) = owned {
        let state = match is_attached {
            // SAFETY: `note` found that this thread is attached.
            true => unsafe { ffi::PyEval_SaveThread() },
            false => ptr::null_mut(),
        };
        // SAFETY: the block owned this tensor, and `take` above moved it here.
        unsafe { owned.delete() };
        if !state.is_null() {
            // SAFETY: `PyEval_SaveThread` above returned this state on this thread.
            unsafe { ffi::PyEval_RestoreThread(state) };
        }
    }
}

pub(crate) unsafe extern "C" fn delete_legacy(managed: *mut DLManagedTensor) {
    // SAFETY: DLPack requires the caller to pass the struct that has this deleter; only structs of blocks have it.
    unsafe { delete(managed.cast()) }
}

pub(crate) unsafe extern "C" fn delete_versioned(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: DLPack requires the caller to pass the struct that has this deleter; only structs of blocks have it.
    unsafe { delete(managed.cast()) }
}
