//! Queries to the driver: whether it is present, and the device of an address.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use cudarc::driver::sys::{self, CUpointer_attribute, CUresult};
use cudarc::driver::{CudaContext, DriverError, result};
use dlbridge::{Device, DeviceType};

use crate::{Error, Result};

/// Returns whether this machine has the library of the CUDA driver. The search runs once.
///
/// ```
/// if !dlbridge_cuda::is_present() {
///     println!("no CUDA here");
/// }
/// ```
pub fn is_present() -> bool {
    const UNKNOWN: u8 = 0;
    const ABSENT: u8 = 1;
    const THERE: u8 = 2;
    // Not a `OnceLock`: a child after `fork` may lack the thread that the others wait for.
    static PRESENT: AtomicU8 = AtomicU8::new(UNKNOWN);
    match PRESENT.load(Ordering::Relaxed) {
        UNKNOWN => {
            // SAFETY: the driver's own library may be loaded at any time.
            let present = unsafe { sys::is_culib_present() };
            PRESENT.store(if present { THERE } else { ABSENT }, Ordering::Relaxed);
            present
        }
        known => known == THERE,
    }
}

pub(crate) fn check_present() -> Result<()> {
    match is_present() {
        true => Ok(()),
        false => Err(Error::NoDriver),
    }
}

/// Returns the primary context of a device, and makes it current on the thread. `CudaContext::new` returns the same
/// context, but panics without a driver.
///
/// # Errors
/// [`Error::NoDriver`]; [`Error::Driver`] if the device does not exist or cannot be used.
///
/// ```
/// use dlbridge_cuda::Error;
///
/// match dlbridge_cuda::context(0) {
///     Ok(context) => println!("cuda:{}", context.ordinal()),
///     Err(Error::NoDriver) => println!("no CUDA here"),
///     Err(error) => println!("{error}"),
/// }
/// ```
pub fn context(ordinal: usize) -> Result<Arc<CudaContext>> {
    check_present()?;
    Ok(CudaContext::new(ordinal)?)
}

/// Returns the device and the kind of memory of an address, as the driver reports them. Host memory that CUDA pinned
/// has the number 0, as `dlpack.h` requires. Managed memory has the number of the device on which it was allocated.
///
/// # Errors
/// [`Error::NoDriver`]; [`Error::UnknownAddress`] for memory that is not CUDA's.
///
/// ```no_run
/// use dlbridge::DeviceType;
///
/// fn is_managed(address: u64) -> dlbridge_cuda::Result<bool> {
///     Ok(dlbridge_cuda::device_of(address)?.device_type() == DeviceType::CUDA_MANAGED)
/// }
/// ```
pub fn device_of(address: u64) -> Result<Device> {
    const HOST: i32 = sys::CUmemorytype::CU_MEMORYTYPE_HOST as i32;
    check_present()?;
    result::init()?;
    let ask = |attribute| match pointer_attribute(address, attribute) {
        Err(DriverError(CUresult::CUDA_ERROR_INVALID_VALUE)) => {
            Err(Error::UnknownAddress { address })
        }
        answer => Ok(answer?),
    };
    let device_type = if ask(CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED)? != 0 {
        DeviceType::CUDA_MANAGED
    } else if ask(CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE)? == HOST {
        return Ok(Device::new(DeviceType::CUDA_HOST, 0));
    } else {
        DeviceType::CUDA
    };
    let id = ask(CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)?;
    Ok(Device::new(device_type, id))
}

/// Queries an attribute whose value is a four-byte number or a boolean.
fn pointer_attribute(
    address: u64,
    attribute: CUpointer_attribute,
) -> std::result::Result<i32, DriverError> {
    let mut value: c_int = 0;
    // SAFETY: `value` has room for the four bytes of the attribute; the driver looks `address` up and does not
    // dereference it.
    unsafe { sys::cuPointerGetAttribute((&raw mut value).cast(), attribute, address) }.result()?;
    Ok(value)
}
