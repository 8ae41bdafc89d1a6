//! The shared object that an address lies in.

use std::ffi::c_void;
use std::num::NonZeroUsize;

/// The beginning of the program or shared library, in memory, that has a function or static at an address; `None` for
/// all other memory.
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
    // SAFETY: any address, which is looked up and not used, and a place for what is found.
    match unsafe { dladdr(address, &mut found) } {
        0 => None,
        _ => NonZeroUsize::new(found.image.addr()),
    }
}

/// As on other systems.
#[cfg(windows)]
pub(crate) fn of(address: *const c_void) -> Option<NonZeroUsize> {
    const FROM_ADDRESS: u32 = 4;
    const UNCHANGED_COUNT: u32 = 2;
    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetModuleHandleExW(flags: u32, address: *const c_void, image: *mut *mut c_void) -> i32;
    }
    let mut image = std::ptr::null_mut();
    // SAFETY: any address, which is looked up and not used, and a place for what is found.
    match unsafe { GetModuleHandleExW(FROM_ADDRESS | UNCHANGED_COUNT, address, &mut image) } {
        0 => None,
        _ => NonZeroUsize::new(image.addr()),
    }
}

/// No memory is known to be a library's.
#[cfg(not(any(unix, windows)))]
pub(crate) fn of(_address: *const c_void) -> Option<NonZeroUsize> {
    None
}
