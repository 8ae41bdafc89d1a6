//! Memory of our own, aligned as DLPack asks.

use alloc::alloc::{alloc, dealloc};
use core::alloc::Layout;
use core::ptr::NonNull;

use crate::{Error, Result};

/// The alignment that DLPack asks of `data`, in bytes.
pub(super) const ALIGNMENT: usize = 256;

/// Uninitialised bytes at an address aligned to [`ALIGNMENT`].
pub(super) struct AlignedBytes {
    memory: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain memory that nobody else has a pointer to.
unsafe impl Send for AlignedBytes {}

impl AlignedBytes {
    /// At least one byte is allocated.
    pub(super) fn new(bytes: usize) -> Result<Self> {
        let layout =
            Layout::from_size_align(bytes.max(1), ALIGNMENT).map_err(|_| Error::TooLarge)?;
        // SAFETY: the size is not zero.
        let memory = NonNull::new(unsafe { alloc(layout) }).ok_or(Error::OutOfMemory { bytes })?;
        Ok(Self { memory, layout })
    }

    /// The same, with all bytes zero.
    pub(super) fn zeroed(bytes: usize) -> Result<Self> {
        let mut memory = Self::new(bytes)?;
        // SAFETY: as many bytes were allocated.
        unsafe { memory.as_mut_ptr().write_bytes(0, bytes) };
        Ok(memory)
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory.as_ptr()
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and freed once.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}
