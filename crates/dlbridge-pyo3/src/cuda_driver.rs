//! The few questions to the CUDA driver that the CUDA array interface leaves open. The driver's
//! library is loaded when first needed, if the machine has it.
//!
//! Source: the documentation of the CUDA driver API.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

/// `CUresult`, where 0 is success.
type Status = c_int;

const LIBRARY: &str = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
const POINTER_ATTRIBUTE_DEVICE_ORDINAL: c_int = 9;
const POINTER_ATTRIBUTE_IS_MANAGED: c_int = 8;

/// The functions of the driver that are used here.
pub(crate) struct CudaDriver {
    pointer_attribute: unsafe extern "C" fn(*mut c_void, c_int, u64) -> Status,
    stream_synchronize: unsafe extern "C" fn(*mut c_void) -> Status,
}

/// What the driver knows of an address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    pub(crate) device: i32,
    pub(crate) is_managed: bool,
}

impl CudaDriver {
    /// The driver of this machine; what is wrong with it if it cannot be used.
    pub(crate) fn get() -> Result<&'static Self, &'static str> {
        static DRIVER: OnceLock<Result<CudaDriver, String>> = OnceLock::new();
        DRIVER.get_or_init(Self::load).as_ref().map_err(String::as_str)
    }

    fn load() -> Result<Self, String> {
        let reason = |error: libloading::Error| error.to_string();
        // SAFETY: the driver's own library may be loaded at any time.
        let library = unsafe { Library::new(LIBRARY) }.map_err(reason)?;
        // SAFETY: the types are those of the documentation.
        let functions = unsafe {
            let init = library.get::<unsafe extern "C" fn(u32) -> Status>(b"cuInit\0");
            match init.map_err(reason)?(0) {
                0 => {}
                status => return Err(format!("cuInit failed with error {status}")),
            }
            Self {
                pointer_attribute: *library.get(b"cuPointerGetAttribute\0").map_err(reason)?,
                stream_synchronize: *library.get(b"cuStreamSynchronize\0").map_err(reason)?,
            }
        };
        // The functions are used as long as the process lives.
        std::mem::forget(library);
        Ok(functions)
    }

    /// On which device an address is; the driver's error number for one that it does not know.
    pub(crate) fn locate(&self, address: usize) -> Result<Pointer, i32> {
        let (device, is_managed) = (
            self.attribute(address, POINTER_ATTRIBUTE_DEVICE_ORDINAL)?,
            self.attribute(address, POINTER_ATTRIBUTE_IS_MANAGED)?,
        );
        Ok(Pointer { device, is_managed: is_managed != 0 })
    }

    fn attribute(&self, address: usize, attribute: c_int) -> Result<i32, i32> {
        // Of the two attributes asked for, one is an `int` and the other an `unsigned int`.
        let mut value = 0_i32;
        // SAFETY: a place for the value; the driver checks the address and does not use it.
        let status =
            unsafe { (self.pointer_attribute)((&raw mut value).cast(), attribute, address as u64) };
        if status == 0 { Ok(value) } else { Err(status) }
    }

    /// Waits for all work on a stream; the driver's error number if that fails.
    ///
    /// # Safety
    /// A stream of this process that lives, or the handle of a default stream.
    pub(crate) unsafe fn synchronize(&self, stream: usize) -> Result<(), i32> {
        // SAFETY: by contract.
        match unsafe { (self.stream_synchronize)(ptr::with_exposed_provenance_mut(stream)) } {
            0 => Ok(()),
            status => Err(status),
        }
    }
}
