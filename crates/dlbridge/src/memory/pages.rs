//! The pages of new memory.

use core::ptr::NonNull;

/// Bytes from which on the system is asked for huge pages.
const LARGE: usize = 1 << 22;

/// Asks for huge pages under large memory, which is about to be written. The system gives memory page by page
/// when it is first written, which takes longer than writing it where pages have 4 KiB.
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
        /// Of the C library, which `std` is linked with.
        fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    }
    const MADV_HUGEPAGE: c_int = 14;
    const PAGE: usize = 4096;
    let before = block.as_ptr().align_offset(PAGE).min(bytes);
    // A wish: refused where pages are larger than thought, or the system has no huge ones.
    // SAFETY: whatever is there, this advice changes nothing of what is in memory.
    unsafe { madvise(block.as_ptr().wrapping_add(before).cast(), bytes - before, MADV_HUGEPAGE) };
}

#[cfg(not(all(feature = "std", target_os = "linux", not(miri))))]
fn advise(_: NonNull<u8>, _: usize) {}
