//! Owners of tensors on `webgpu`, and the lookup from a tensor to its buffer.
//!
//! wgpu does not provide a handle for a tensor's data pointer. The pointer is the address of the owner's [`Memory`],
//! which holds the [`wgpu::Buffer`]. The crate never dereferences it, and looks it up among the addresses of all live
//! owners. So it recognises another library's tensor on `webgpu` without reading what that points to.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::{Error, Result, device};

/// The memory that the owner of a tensor keeps.
#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) buffer: wgpu::Buffer,
    /// The device of the buffer, if this crate made the buffer: wgpu cannot report it.
    device: Option<wgpu::Device>,
}

impl Memory {
    pub(crate) fn new(buffer: wgpu::Buffer, device: Option<&wgpu::Device>) -> Self {
        Self { buffer, device: device.cloned() }
    }

    /// Refuses a device that is known not to be the buffer's. wgpu does not refuse it: it compares only numbers, and
    /// each instance counts from the beginning.
    pub(crate) fn check_device(&self, other: &wgpu::Device) -> Result<()> {
        match self.device.as_ref().is_none_or(|device| device::same(device, other)) {
            true => Ok(()),
            false => Err(Error::OtherDevice),
        }
    }
}

/// All live owners, by address. No address is reused while it is in this map, because the weak handle keeps the
/// allocation.
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

    /// Returns the tensor's data pointer.
    pub(crate) fn data(&self) -> *mut c_void {
        Arc::as_ptr(&self.0).cast_mut().cast()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Releases the lock before wgpu drops the buffer, which may own a tensor in turn.
        held().remove(&self.data().addr());
    }
}

/// Returns the memory of the owner with this [`data`](Held::data) pointer.
pub(crate) fn find(data: *mut c_void) -> Option<Memory> {
    let found = held().get(&data.addr())?.upgrade()?;
    Some(Memory::clone(&found))
}
