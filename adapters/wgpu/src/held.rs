//! The owners of tensors on `webgpu`, and how a tensor leads back to its buffer.
//!
//! wgpu has no handle to put into a tensor's data. There stands the address of what the owner
//! keeps, the [`wgpu::Buffer`] in it, which is never followed: it is looked up among those of all owners that live. So what
//! another library calls a tensor on `webgpu` is told apart without a look at what it points to.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::{Error, Result, device};

/// What the owner of a tensor keeps.
#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) buffer: wgpu::Buffer,
    /// The device of the buffer, if this crate has made it: a buffer does not tell.
    device: Option<wgpu::Device>,
}

impl Memory {
    pub(crate) fn new(buffer: wgpu::Buffer, device: Option<&wgpu::Device>) -> Self {
        Self { buffer, device: device.cloned() }
    }

    /// Refuses a device that is known to be another than the buffer's. wgpu does not: what it compares are numbers, and
    /// each instance counts from the beginning.
    pub(crate) fn check_device(&self, other: &wgpu::Device) -> Result<()> {
        match self.device.as_ref().is_none_or(|device| device::same(device, other)) {
            true => Ok(()),
            false => Err(Error::OtherDevice),
        }
    }
}

/// All owners that live, by address. An address is not used again while it is in here: the weak handle
/// keeps the allocation.
static HELD: Mutex<BTreeMap<usize, Weak<Memory>>> = Mutex::new(BTreeMap::new());

fn held() -> MutexGuard<'static, BTreeMap<usize, Weak<Memory>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The owner of a tensor on `webgpu`.
pub(crate) struct Held(Arc<Memory>);

impl Held {
    pub(crate) fn new(memory: Memory) -> Self {
        let memory = Arc::new(memory);
        held().insert(Arc::as_ptr(&memory).addr(), Arc::downgrade(&memory));
        Self(memory)
    }

    /// What stands in the tensor's data.
    pub(crate) fn data(&self) -> *mut c_void {
        Arc::as_ptr(&self.0).cast_mut().cast()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The lock is given back before wgpu hears of it: a buffer may own a tensor in turn.
        held().remove(&self.data().addr());
    }
}

/// The memory of the owner whose [`data`](Held::data) this is.
pub(crate) fn find(data: *mut c_void) -> Option<Memory> {
    let found = held().get(&data.addr())?.upgrade()?;
    Some(Memory::clone(&found))
}
