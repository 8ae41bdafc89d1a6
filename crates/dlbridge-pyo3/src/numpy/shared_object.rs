//! The shared object that an address lies in.

use std::ffi::c_void;
use std::num::NonZeroUsize;

/// The start, in memory, of the program or shared library that contains the function or static at an address; `None`
/// for all other memory.
#[cfg(unix)]
pub(crate) fn of(address: *const c_void) -> Option<NonZeroUsize> {
    use std::ffi::{c_char, c_int};

    #[repr(C)]
    struct Found {
        file: *const c_char,
        image: *mut c_void,
        symbol: *const c_char,
        symbol_address: *mut c_void,
    }
    unsafe extern "C" {
        fn dladdr(address: *const c_void, found: *mut Found) -> c_int;
    }
    let null = std::ptr::null_mut::<c_void>();
    let mut found = Found {
        file: null.cast(),
        image: null.cast(),
        symbol: null.cast(),
        symbol_address: null.cast(),
    };
    // SAFETY: `dladdr` accepts any address and only looks it up; `found` is writable.
    match unsafe { dladdr(address, &mut found) } {
        0 => None,
        _ => NonZeroUsize::new(found.image.addr()),
    }
}

/// The start of the program or library that contains an address, as on Unix.
#[cfg(windows)]
pub(crate) fn of(address: *const c_void) -> Option<NonZeroUsize> {
    const FROM_ADDRESS: u32 = 4;
    const UNCHANGED_COUNT: u32 = 2;
    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetModuleHandleExW(flags: u32, address: *const c_void, image: *mut *mut c_void) -> i32;
    }
    let mut image = std::ptr::null_mut();
    // SAFETY: the function accepts any address and only looks it up; `image` is writable.
    match unsafe { GetModuleHandleExW(FROM_ADDRESS | UNCHANGED_COUNT, address, &mut image) } {
        0 => None,
        _ => NonZeroUsize::new(image.addr()),
    }
}

/// Returns `None`: on other systems, no memory is known to belong to a library.
#[cfg(not(any(unix, windows)))]
pub(crate) fn of(_address: *const c_void) -> Option<NonZeroUsize> {
    None
}
