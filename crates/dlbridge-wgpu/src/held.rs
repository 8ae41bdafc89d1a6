//! The owners of tensors on `webgpu`, and how a tensor leads back to its buffer.
//!
//! wgpu has no handle to put into a tensor's data. There stands the address of the owner's own copy of
//! the [`wgpu::Buffer`], which is never followed: it is looked up among those of all owners that live. So what
//! another library calls a tensor on `webgpu` is told apart without a look at what it points to.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// All owners that live, by address. An address is not used again while it is in here: the weak handle
/// keeps the allocation.
static HELD: Mutex<BTreeMap<usize, Weak<wgpu::Buffer>>> = Mutex::new(BTreeMap::new());

fn held() -> MutexGuard<'static, BTreeMap<usize, Weak<wgpu::Buffer>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The owner of a tensor on `webgpu`.
pub(crate) struct Held(Arc<wgpu::Buffer>);

impl Held {
    pub(crate) fn new(buffer: wgpu::Buffer) -> Self {
        let buffer = Arc::new(buffer);
        held().insert(Arc::as_ptr(&buffer).addr(), Arc::downgrade(&buffer));
        Self(buffer)
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

/// The buffer of the owner whose [`data`](Held::data) this is.
pub(crate) fn find(data: *mut c_void) -> Option<wgpu::Buffer> {
    let found = held().get(&data.addr())?.upgrade()?;
    Some(wgpu::Buffer::clone(&found))
}
