//! The questions to the driver: whether it is there, and what it knows of an address.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use cudarc::driver::sys::{self, CUpointer_attribute, CUresult};
use cudarc::driver::{CudaContext, DriverError, result};
use dlbridge::{Device, DeviceType};

use crate::{Error, Result};

/// Whether the library of the CUDA driver is on this machine. It is looked for once.
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
    // Not a cell that makes threads wait for the first one: a child after `fork` may lack that thread.
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

/// The primary context of a device, as `CudaContext::new` gives it, which panics without a driver. It becomes the
/// current one of the thread.
///
/// # Errors
/// [`Error::NoDriver`]; [`Error::Driver`] if there is no such device, or it cannot be used.
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

/// On which device an address is, and as memory of which kind: what the driver says of it. Memory of the host
/// that CUDA pinned has the number 0, as `dlpack.h` has it; for managed memory it is that of the device it was
/// made on.
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

/// One of the attributes that are numbers of four bytes, or a boolean.
fn pointer_attribute(
    address: u64,
    attribute: CUpointer_attribute,
) -> std::result::Result<i32, DriverError> {
    let mut value: c_int = 0;
    // SAFETY: a place for the value; the driver looks the address up and does not follow it.
    unsafe { sys::cuPointerGetAttribute((&raw mut value).cast(), attribute, address) }.result()?;
    Ok(value)
}
