//! New memory for elements: aligned as DLPack demands, in huge pages where it is large.

use alloc::alloc::{alloc, alloc_zeroed, dealloc};
use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::slice;

use crate::{Error, Result};

/// The alignment that DLPack demands of `data`, in bytes.
pub(crate) const ALIGNMENT: usize = 256;

/// Up to this number of bytes, a copy aligns its memory within an unaligned block, which allocators keep ready: an
/// aligned one costs glibc up to four calls more, as many instructions as the rest of a small copy.
const SMALL: usize = 1 << 16;

/// The alignment of blocks that allocators keep ready on every system.
const UNALIGNED: usize = 8;

/// Bytes at an address with the requested alignment, at least [`ALIGNMENT`].
pub(crate) struct AlignedBytes {
    /// The allocation; the bytes begin at `first` in it.
    block: NonNull<u8>,
    layout: Layout,
    first: usize,
    bytes: usize,
}

// SAFETY: plain memory that no other code has a pointer to.
unsafe impl Send for AlignedBytes {}

impl AlignedBytes {
    /// Uninitialised bytes for a copy. At least one is allocated.
    pub(crate) fn for_copy(bytes: usize, alignment: usize) -> Result<Self> {
        let alignment = alignment.max(ALIGNMENT);
        let is_small = bytes <= SMALL && alignment == ALIGNMENT;
        let layout = match is_small {
            true => Layout::from_size_align(bytes + ALIGNMENT - UNALIGNED, UNALIGNED),
            false => Layout::from_size_align(bytes.max(1), alignment),
        };
        let layout = layout.map_err(|_| Error::TooLarge)?;
        // SAFETY: the size is not zero.
        let block = NonNull::new(unsafe { alloc(layout) });
        let block = block.ok_or(Error::OutOfMemory { bytes, for_copy: true })?;
        prefer_huge(block, bytes);
        // A block is a multiple of `UNALIGNED` bytes from the first aligned address in it, so the bytes fit behind
        // that.
        let first = if is_small { first_aligned(block, ALIGNMENT) } else { 0 };
        Ok(Self { block, layout, first, bytes })
    }

    /// Bytes that are all zero, for a copy or for a new tensor.
    ///
    /// Allocators know that large blocks from the system are zero. If alignment is requested, they zero them again. So
    /// this requests an unaligned block and aligns the bytes within it.
    pub(crate) fn zeroed(bytes: usize, alignment: usize, for_copy: bool) -> Result<Self> {
        let alignment = alignment.max(ALIGNMENT);
        let room = bytes.checked_add(alignment).ok_or(Error::TooLarge)?;
        let layout = Layout::from_size_align(room, 1).map_err(|_| Error::TooLarge)?;
        // SAFETY: the size is not zero.
        let block = unsafe { alloc_zeroed(layout) };
        let block = NonNull::new(block).ok_or(Error::OutOfMemory { bytes, for_copy })?;
        prefer_huge(block, bytes);
        let first = first_aligned(block, alignment);
        Ok(Self { block, layout, first, bytes })
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.block.as_ptr().wrapping_add(self.first)
    }

    /// All requested bytes, as uninitialised memory.
    pub(crate) fn as_uninit_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: `self.bytes` bytes were allocated at `first` in the block; no other code has them.
        unsafe { slice::from_raw_parts_mut(self.as_mut_ptr().cast(), self.bytes) }
    }
}

/// The bytes from the beginning of a block to the first aligned address.
fn first_aligned(block: NonNull<u8>, alignment: usize) -> usize {
    // A power of two: no division.
    block.addr().get().wrapping_neg() & (alignment - 1)
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.block.as_ptr(), self.layout) }
    }
}

/// Blocks of at least this number of bytes request huge pages.
const LARGE: usize = 1 << 22;

/// Requests huge pages for large memory that is about to be written. The system provides each page at its first write;
/// with 4 KiB pages that takes longer than the write itself.
#[inline]
pub(crate) fn prefer_huge(block: NonNull<u8>, bytes: usize) {
    if bytes >= LARGE {
        advise(block, bytes);
    }
}

#[cfg(all(feature = "std", target_os = "linux", not(miri)))]
fn advise(block: NonNull<u8>, bytes: usize) {
    use core::ffi::{c_int, c_void};
    unsafe extern "C" {
        /// From the C library, which `std` links.
        fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    }
    const MADV_HUGEPAGE: c_int = 14;
    const PAGE: usize = 4096;
    let before = block.as_ptr().align_offset(PAGE).min(bytes);
    // Only a hint: the system refuses it if its pages are larger than `PAGE`, or if it has no huge pages.
    // SAFETY: this advice never changes the contents of memory, whatever the address range holds.
    unsafe { madvise(block.as_ptr().wrapping_add(before).cast(), bytes - before, MADV_HUGEPAGE) };
}

#[cfg(not(all(feature = "std", target_os = "linux", not(miri))))]
fn advise(_: NonNull<u8>, _: usize) {}
