//! The file of the extension that contains this code.

use std::ffi::CString;

/// Keeps the extension loaded until the process ends, because a framework keeps addresses of its functions. Returns its
/// file, or `None` if the loader does not tell it.
#[cfg(unix)]
pub(crate) fn keep_loaded() -> Option<CString> {
    use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
    use std::os::unix::ffi::OsStrExt;
    use std::sync::OnceLock;

    use libloading::os::unix::{Library, RTLD_NOW};

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
    const RTLD_NOLOAD: c_int = if cfg!(target_vendor = "apple") { 0x10 } else { 0x4 };
    const RTLD_NODELETE: c_int = if cfg!(target_vendor = "apple") { 0x80 } else { 0x1000 };
    static KEPT: OnceLock<Option<CString>> = OnceLock::new();

    let keep = || {
        let null = std::ptr::null_mut::<c_void>();
        let mut found =
            Found { file: null.cast(), image: null, symbol: null.cast(), symbol_address: null };
        let here = keep_loaded as fn() -> Option<CString> as *const c_void;
        // SAFETY: `dladdr` accepts any address and only looks it up; `found` is writable.
        if unsafe { dladdr(here, &mut found) } == 0 || found.file.is_null() {
            return None;
        }
        // SAFETY: the file's name is a string that ends with zero and is valid while the file is loaded, as this code
        // is.
        let file = unsafe { CStr::from_ptr(found.file) }.to_owned();
        let path = OsStr::from_bytes(file.to_bytes());
        // SAFETY: the flag forbids to load a library, so no code of a library runs.
        let opened = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) };
        // A program that has the operators itself is never unloaded, and need not be found by its path.
        if let Ok(library) = opened {
            std::mem::forget(library);
        }
        Some(file)
    };
    KEPT.get_or_init(keep).clone()
}

/// Without PyTorch and tvm-ffi, no framework keeps addresses.
#[cfg(not(unix))]
pub(crate) fn keep_loaded() -> Option<CString> {
    None
}
