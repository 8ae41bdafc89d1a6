//! A crafted struct with what its deleter needs.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use dlbridge_sys::{DLManagedTensor, DLManagedTensorVersioned};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::made::{self, What, locked};
use crate::managed::Managed;
use crate::record::Record;
use crate::{chain, extent};

/// Tensors that have a deleter: how many were made and deleted, and how many calls there were after the first.
static MADE: AtomicU32 = AtomicU32::new(0);
static DELETED: AtomicU32 = AtomicU32::new(0);
static REPEATED: AtomicU32 = AtomicU32::new(0);

/// How many tensors with a deleter were made, how many were deleted, and how often one was again.
#[pyfunction]
pub(crate) fn counts() -> (u32, u32, u32) {
    (MADE.load(SeqCst), DELETED.load(SeqCst), REPEATED.load(SeqCst))
}

/// Refuses to read or delete what is no more.
pub(crate) fn given_back() -> PyErr {
    PyValueError::new_err("the tensor was given back")
}

/// The struct, and what its deleter needs. The struct comes first, so that the deleter finds the rest.
#[repr(C)]
pub(crate) struct Block {
    /// A library that has the struct may write to it.
    managed: UnsafeCell<Either>,
    versioned: bool,
    record: Record,
    data: Mutex<Data>,
    /// Another tensor that the deleter deletes too, after it has let the GIL go.
    owned: Mutex<Option<Managed>>,
}

/// The data of a block. The crafter reads and writes it under the lock; a library that has the struct needs none.
pub(crate) struct Data {
    /// The bytes that were crafted.
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
    /// Of the struct as it was made.
    pub(crate) data: *mut c_void,
    pub(crate) byte_offset: u64,
    /// Set if `data` is an address that a test gave, and vouches for.
    pub(crate) elsewhere: bool,
    /// Set by the deleter.
    pub(crate) is_deleted: bool,
}

#[repr(C)]
pub(crate) union Either {
    pub(crate) legacy: ManuallyDrop<DLManagedTensor>,
    pub(crate) versioned: ManuallyDrop<DLManagedTensorVersioned>,
}

// SAFETY: every field that changes is atomic or in a lock, except the struct, which is in an `UnsafeCell` and only used by its address.
unsafe impl Sync for Block {}

impl Block {
    /// Keeps a struct for ever.
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

    /// The block whose struct is at an address, if it is one.
    pub(crate) fn at(address: usize) -> Option<&'static Self> {
        match made::at(address)? {
            // SAFETY: Kept: `keep` has put a block there.
            What::Struct => Some(unsafe { &*ptr::with_exposed_provenance(address) }),
            _ => None,
        }
    }

    /// The struct. A library that gets the address may read and write all of it, since it is in an `UnsafeCell`.
    pub(crate) fn managed(&self) -> Managed {
        Managed { address: ptr::from_ref(self).cast_mut().cast(), versioned: self.versioned }
    }

    /// Does something with `count` bytes, `offset` bytes from the first element on; the deleter waits until it is done.
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
        // SAFETY: given away to the block, which gives it away here; attached, as this call has found.
        unsafe { chain::delete(owned, is_attached) };
    }
}

pub(crate) unsafe extern "C" fn delete_legacy(managed: *mut DLManagedTensor) {
    // SAFETY: DLPack: called with the struct that has this deleter, which is that of a block.
    unsafe { delete(managed.cast()) }
}

pub(crate) unsafe extern "C" fn delete_versioned(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: DLPack: called with the struct that has this deleter, which is that of a block.
    unsafe { delete(managed.cast()) }
}
