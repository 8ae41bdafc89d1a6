//! The pages of new memory.

use core::ptr::NonNull;

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
