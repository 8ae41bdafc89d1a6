//! The functions of the library of tvm-ffi that the process has loaded.

use std::ffi::{CString, c_char, c_void};
use std::fmt;
use std::io::Write;
use std::sync::OnceLock;

use dlbridge::DeviceType;
use dlbridge::sys::DLManagedTensorVersioned;
#[cfg(unix)]
use libloading::os::unix::{Library, RTLD_NOW};

use super::abi::{Any, Run};
use crate::error::{Error, ErrorKind, Result};

type Raise = unsafe extern "C" fn(*const c_char, *const c_char);

/// The functions of the library.
pub(super) struct Runtime {
    raise: Raise,
    /// Makes a tensor object: `TVMFFITensorFromDLPackVersioned`.
    pub(super) tensor:
        unsafe extern "C" fn(*mut DLManagedTensorVersioned, i32, i32, *mut *mut c_void) -> i32,
    /// Finds a function by its name: `TVMFFIFunctionGetGlobal`.
    pub(super) global: unsafe extern "C" fn(*const Run<u8>, *mut *mut c_void) -> i32,
    /// Calls a function: `TVMFFIFunctionCall`.
    pub(super) call: unsafe extern "C" fn(*mut c_void, *mut Any, i32, *mut Any) -> i32,
    /// Returns the stream that the program has chosen for a device: `TVMFFIEnvGetStream`.
    stream: unsafe extern "C" fn(i32, i32) -> *mut c_void,
    /// Gives a reference back: `TVMFFIObjectDecRef`.
    pub(super) release: unsafe extern "C" fn(*mut c_void) -> i32,
}

/// The release of tvm-ffi.
#[repr(C)]
#[derive(Default)]
struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, patch } = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

impl Runtime {
    /// The functions, once they are found.
    pub(super) fn of_process() -> Result<&'static Self> {
        match RUNTIME.get() {
            Some(runtime) => Ok(runtime),
            None => {
                let found = Self::find()?;
                Ok(RUNTIME.get_or_init(|| found))
            }
        }
    }

    #[cfg(unix)]
    fn find() -> Result<Self> {
        let library = library();
        let mut version = Version::default();
        // SAFETY: these are the functions' types in every release, as `tvm/ffi/c_api.h` 0.1 declares them.
        unsafe {
            let get: unsafe extern "C" fn(*mut Version) = symbol(&library, "TVMFFIGetVersion")?;
            get(&mut version);
            if (version.major, version.minor) != (0, 1) {
                return Err(incompatible(format_args!("is {version}")));
            }
            let runtime = Self {
                raise: symbol(&library, "TVMFFIErrorSetRaisedFromCStr")?,
                tensor: symbol(&library, "TVMFFITensorFromDLPackVersioned")?,
                global: symbol(&library, "TVMFFIFunctionGetGlobal")?,
                call: symbol(&library, "TVMFFIFunctionCall")?,
                stream: symbol(&library, "TVMFFIEnvGetStream")?,
                release: symbol(&library, "TVMFFIObjectDecRef")?,
            };
            // The functions stay valid as long as the library is loaded.
            std::mem::forget(library);
            Ok(runtime)
        }
    }

    #[cfg(not(unix))]
    fn find() -> Result<Self> {
        Err(Error::of(ErrorKind::Missing, "operators for tvm-ffi need Linux or macOS"))
    }
}

/// The stream that the program has chosen for a CUDA device; NULL, the default stream, unless it has.
pub(super) fn stream(device: i32) -> Result<*mut c_void> {
    let runtime = Runtime::of_process()?;
    // SAFETY: the function looks up any numbers of a device's type and of a device, and returns NULL for unknown ones.
    Ok(unsafe { (runtime.stream)(DeviceType::CUDA.code(), device) })
}

/// The error of a release with another interface.
pub(super) fn incompatible(found: impl fmt::Display) -> Error {
    let message = format!(
        "tvm-ffi {found}, but the operator needs 0.1; install apache-tvm-ffi 0.1, or build the operator with a release \
         of dlbridge-ops for the tvm-ffi that you have"
    );
    Error::of(ErrorKind::Missing, message)
}

/// The library of tvm-ffi that is loaded, or else the program, which may include it.
#[cfg(unix)]
fn library() -> Library {
    let name = if cfg!(target_vendor = "apple") { "libtvm_ffi.dylib" } else { "libtvm_ffi.so" };
    // SAFETY: nothing is loaded, so that no initialiser runs.
    let loaded = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_NOLOAD) };
    loaded.unwrap_or_else(|_| Library::this())
}

/// For `dlopen`: does not load the file, but finds it if it is loaded.
#[cfg(unix)]
const RTLD_NOLOAD: i32 = if cfg!(target_vendor = "apple") { 0x10 } else { 0x4 };

/// # Safety
/// The symbol, if it exists, is a function of the type `T`.
#[cfg(unix)]
unsafe fn symbol<T: Copy>(library: &Library, name: &'static str) -> Result<T> {
    // SAFETY: the caller guarantees the type.
    match unsafe { library.get::<T>(name.as_bytes()) } {
        Ok(found) => Ok(*found),
        Err(_) => Err(incompatible(format_args!("has no `{name}`"))),
    }
}

/// Sets the error that the call then reports by its code. Prints it if tvm-ffi is not found.
pub(super) fn raise(error: &Error) {
    let kind = match error.kind() {
        ErrorKind::Type => c"TypeError",
        // tvm-ffi has no `BufferError`.
        ErrorKind::Value | ErrorKind::Buffer => c"ValueError",
        ErrorKind::Memory => c"MemoryError",
        ErrorKind::Failed | ErrorKind::Panic | ErrorKind::Missing => c"RuntimeError",
    };
    let message = error.to_string().replace('\0', "\\0");
    let message = CString::new(message).unwrap_or_default();
    match RUNTIME.get().map(|runtime| runtime.raise).or_else(found_raise) {
        // SAFETY: both are strings that end with 0, which the function copies.
        Some(raise) => unsafe { raise(kind.as_ptr(), message.as_ptr()) },
        // Not `eprintln!`, which panics if the stream is closed.
        None => drop(writeln!(std::io::stderr(), "{error}")),
    }
}

/// The function that sets errors, also of a release with another interface.
#[cfg(unix)]
fn found_raise() -> Option<Raise> {
    let library = library();
    // SAFETY: the function has this type in every release.
    let raise = unsafe { symbol(&library, "TVMFFIErrorSetRaisedFromCStr") }.ok();
    std::mem::forget(library);
    raise
}

#[cfg(not(unix))]
fn found_raise() -> Option<Raise> {
    None
}
