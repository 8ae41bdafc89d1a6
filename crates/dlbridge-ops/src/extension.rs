//! The file of the extension that contains this code.

use std::ffi::CStr;
#[cfg(unix)]
use std::ffi::{c_char, c_int, c_void};

use crate::error::{Error, ErrorKind, Result};

/// Keeps the extension loaded until the process ends, because a framework keeps addresses of its functions. Returns its
/// file.
///
/// # Errors
/// Returns an error if the loader does not find the file, unless it is the program itself, which is never unloaded.
#[cfg(unix)]
pub(crate) fn keep_loaded() -> Result<&'static CStr> {
    use std::ffi::{CString, OsStr};
    use std::os::unix::ffi::OsStrExt;
    use std::sync::OnceLock;

    use libloading::os::unix::{Library, RTLD_NOW};

    const RTLD_NOLOAD: c_int = if cfg!(target_vendor = "apple") { 0x10 } else { 0x4 };
    const RTLD_NODELETE: c_int = if cfg!(target_vendor = "apple") { 0x80 } else { 0x1000 };
    static KEPT: OnceLock<Result<CString>> = OnceLock::new();

    let keep = || {
        let here = keep_loaded as fn() -> Result<&'static CStr> as *const c_void;
        let found = image(here).filter(|found| !found.file.is_null()).ok_or_else(|| {
            Error::of(ErrorKind::Failed, "the loader does not know the extension's file")
        })?;
        // SAFETY: the file's name is a string that ends with zero and is valid while the file is loaded, as this code
        // is.
        let file = unsafe { CStr::from_ptr(found.file) }.to_owned();
        let path = OsStr::from_bytes(file.to_bytes());
        // SAFETY: the flag forbids to load a library, so no code of a library runs.
        let opened = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) };
        match opened {
            Ok(library) => std::mem::forget(library),
            // The loader need not find a program by its path.
            Err(_) if program() == Some(found.base) => {}
            Err(error) => {
                return Err(Error::of(
                    ErrorKind::Failed,
                    format_args!("the loader cannot keep the extension {path:?} loaded: {error}"),
                ));
            }
        }
        Ok(file)
    };
    KEPT.get_or_init(keep).as_deref().map_err(Error::clone)
}

/// A file that is loaded, as `dladdr` describes it.
#[cfg(unix)]
#[repr(C)]
struct Image {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    symbol_address: *mut c_void,
}

/// The file that has the code or data at an address.
#[cfg(unix)]
fn image(address: *const c_void) -> Option<Image> {
    use std::ptr::{null, null_mut};

    unsafe extern "C" {
        fn dladdr(address: *const c_void, found: *mut Image) -> c_int;
    }
    let mut found =
        Image { file: null(), base: null_mut(), symbol: null(), symbol_address: null_mut() };
    // SAFETY: `dladdr` accepts any address and only looks it up; `found` is writable.
    (unsafe { dladdr(address, &mut found) } != 0).then_some(found)
}

/// The address at which the program itself is loaded.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn program() -> Option<*mut c_void> {
    use std::ffi::c_ulong;

    unsafe extern "C" {
        fn getauxval(kind: c_ulong) -> c_ulong;
    }
    /// The address of the program's first instruction.
    const AT_ENTRY: c_ulong = 9;
    // SAFETY: the function takes any number, and returns zero for values that the kernel did not pass.
    let entry = unsafe { getauxval(AT_ENTRY) };
    image(std::ptr::without_provenance(entry as usize)).map(|image| image.base)
}

/// The address at which the program itself is loaded.
#[cfg(target_vendor = "apple")]
fn program() -> Option<*mut c_void> {
    unsafe extern "C" {
        fn _dyld_get_image_header(index: u32) -> *mut c_void;
    }
    // SAFETY: the function takes any number; the program is the image with the number zero.
    let header = unsafe { _dyld_get_image_header(0) };
    (!header.is_null()).then_some(header)
}

/// Elsewhere the program is not found.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android", target_vendor = "apple"))))]
fn program() -> Option<*mut c_void> {
    None
}

/// Refuses, because no framework that keeps addresses is supported.
#[cfg(not(unix))]
pub(crate) fn keep_loaded() -> Result<&'static CStr> {
    let message = "the extension is kept loaded only on Linux and macOS";
    Err(Error::of(ErrorKind::Missing, message))
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use std::ffi::c_void;

    use super::{image, keep_loaded, program};

    #[test]
    fn keep_loaded_of_a_program_returns_its_file() {
        assert!(!keep_loaded().unwrap().is_empty());
    }

    #[test]
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    fn program_is_the_image_of_its_own_code_only() {
        let here = program as fn() -> _ as *const c_void;
        assert_eq!(program(), image(here).map(|image| image.base));
        let library = libloading::os::unix::Library::this();
        // SAFETY: the symbol is only taken as an address.
        let other = unsafe { library.get::<*const c_void>(b"malloc") }.unwrap();
        assert_ne!(program(), image(*other).map(|image| image.base));
    }
}
