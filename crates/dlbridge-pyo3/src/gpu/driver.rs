//! The drivers of CUDA and ROCm: their functions, loaded when first needed, if the machine has the library.
//!
//! Both have the same functions under other names, but for how a thread says which device it means.
//!
//! Source: the documentation of the CUDA driver API and of HIP.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use dlbridge::{Device, DeviceType};
use libloading::Library;

/// The error number of a driver, where 0 is success.
pub(super) type Status = c_int;
/// Handles are pointers that nobody here looks behind.
pub(super) type StreamHandle = usize;
pub(super) type EventHandle = usize;
type ContextHandle = usize;

/// Why a driver did not do what it was asked for, as a sentence.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// The functions of a driver that are used here.
pub(crate) struct Driver {
    pub(super) name: &'static str,
    error_name: ErrorName,
    switch: Switch,
    pub(super) pointer_attribute: unsafe extern "C" fn(*mut c_void, c_int, u64) -> Status,
    pub(super) event_create: unsafe extern "C" fn(*mut EventHandle, c_uint) -> Status,
    pub(super) event_record: unsafe extern "C" fn(EventHandle, StreamHandle) -> Status,
    pub(super) event_query: unsafe extern "C" fn(EventHandle) -> Status,
    pub(super) event_synchronize: unsafe extern "C" fn(EventHandle) -> Status,
    pub(super) event_destroy: unsafe extern "C" fn(EventHandle) -> Status,
    pub(super) stream_wait_event: unsafe extern "C" fn(StreamHandle, EventHandle, c_uint) -> Status,
    pub(super) stream_capture_info:
        unsafe extern "C" fn(StreamHandle, *mut c_int, *mut u64) -> Status,
    exchange_capture_mode: unsafe extern "C" fn(*mut c_int) -> Status,
    pub(super) memory: Option<MemoryFunctions>,
}

/// Those with which copies are made, which dlbridge does on CUDA.
#[derive(Clone, Copy)]
pub(super) struct MemoryFunctions {
    pub(super) alloc: unsafe extern "C" fn(*mut u64, usize) -> Status,
    pub(super) free: unsafe extern "C" fn(u64) -> Status,
    pub(super) host_alloc: unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> Status,
    pub(super) copy_async: unsafe extern "C" fn(u64, u64, usize, StreamHandle) -> Status,
}

enum ErrorName {
    Cuda(unsafe extern "C" fn(Status, *mut *const c_char) -> Status),
    Rocm(unsafe extern "C" fn(Status) -> *const c_char),
}

/// How a thread says on which device it works.
enum Switch {
    /// By a stack of contexts. That of a device which all libraries share is held as long as the process lives.
    Cuda {
        retain: unsafe extern "C" fn(*mut ContextHandle, c_int) -> Status,
        push: unsafe extern "C" fn(ContextHandle) -> Status,
        pop: unsafe extern "C" fn(*mut ContextHandle) -> Status,
        retained: Mutex<Vec<(i32, ContextHandle)>>,
    },
    /// By the number of the device.
    Rocm {
        get: unsafe extern "C" fn(*mut c_int) -> Status,
        set: unsafe extern "C" fn(c_int) -> Status,
    },
}

impl Driver {
    /// The driver for the devices of a type, an error that says what is wrong with it if it cannot be used.
    pub(crate) fn of(device_type: DeviceType) -> Result<&'static Self> {
        static CUDA: OnceLock<Result<Driver>> = OnceLock::new();
        static ROCM: OnceLock<Result<Driver>> = OnceLock::new();
        let driver = match device_type {
            DeviceType::ROCM => ROCM.get_or_init(Self::load_rocm),
            _ => CUDA.get_or_init(Self::load_cuda),
        };
        driver.as_ref().map_err(|failure| Failure(failure.0.clone()))
    }

    fn load_cuda() -> Result<Self> {
        const LIBRARIES: &[&str] =
            if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };
        let library = Functions::open("CUDA", LIBRARIES)?;
        // SAFETY: the types are those of the documentation.
        unsafe {
            library.init(c"cuInit")?;
            Ok(Self {
                name: "CUDA",
                error_name: ErrorName::Cuda(library.get(c"cuGetErrorName")?),
                switch: Switch::Cuda {
                    retain: library.get(c"cuDevicePrimaryCtxRetain")?,
                    push: library.get(c"cuCtxPushCurrent_v2")?,
                    pop: library.get(c"cuCtxPopCurrent_v2")?,
                    retained: Mutex::new(Vec::new()),
                },
                pointer_attribute: library.get(c"cuPointerGetAttribute")?,
                event_create: library.get(c"cuEventCreate")?,
                event_record: library.get(c"cuEventRecord")?,
                event_query: library.get(c"cuEventQuery")?,
                event_synchronize: library.get(c"cuEventSynchronize")?,
                event_destroy: library.get(c"cuEventDestroy_v2")?,
                stream_wait_event: library.get(c"cuStreamWaitEvent")?,
                stream_capture_info: library.get(c"cuStreamGetCaptureInfo")?,
                exchange_capture_mode: library.get(c"cuThreadExchangeStreamCaptureMode")?,
                memory: Some(MemoryFunctions {
                    alloc: library.get(c"cuMemAlloc_v2")?,
                    free: library.get(c"cuMemFree_v2")?,
                    host_alloc: library.get(c"cuMemHostAlloc")?,
                    copy_async: library.get(c"cuMemcpyAsync")?,
                }),
            })
        }
    }

    fn load_rocm() -> Result<Self> {
        const LIBRARIES: &[&str] = if cfg!(windows) {
            &["amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"]
        } else {
            &["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"]
        };
        let library = Functions::open("ROCm", LIBRARIES)?;
        // SAFETY: the types are those of the documentation.
        unsafe {
            library.init(c"hipInit")?;
            Ok(Self {
                name: "ROCm",
                error_name: ErrorName::Rocm(library.get(c"hipGetErrorName")?),
                switch: Switch::Rocm {
                    get: library.get(c"hipGetDevice")?,
                    set: library.get(c"hipSetDevice")?,
                },
                pointer_attribute: library.get(c"hipPointerGetAttribute")?,
                event_create: library.get(c"hipEventCreateWithFlags")?,
                event_record: library.get(c"hipEventRecord")?,
                event_query: library.get(c"hipEventQuery")?,
                event_synchronize: library.get(c"hipEventSynchronize")?,
                event_destroy: library.get(c"hipEventDestroy")?,
                stream_wait_event: library.get(c"hipStreamWaitEvent")?,
                stream_capture_info: library.get(c"hipStreamGetCaptureInfo")?,
                exchange_capture_mode: library.get(c"hipThreadExchangeStreamCaptureMode")?,
                memory: None,
            })
        }
    }

    /// An error for what the driver answered, unless that was success.
    pub(super) fn check(&self, function: &str, status: Status) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let mut name = ptr::null();
        // SAFETY: a place for the name, which is a text that lives as long as the driver.
        let name = unsafe {
            match self.error_name {
                ErrorName::Cuda(error_name) => {
                    let _ = error_name(status, &mut name);
                }
                ErrorName::Rocm(error_name) => name = error_name(status),
            }
            if name.is_null() { c"an unknown error" } else { CStr::from_ptr(name) }
        };
        let (driver, name) = (self.name, name.to_string_lossy());
        Err(Failure(format!("{driver}'s driver refused to {function}: error {status}, {name}")))
    }

    /// Makes a device the current one of this thread, until what is returned is dropped. What is done
    /// meanwhile does not spoil the capture of a graph on another stream.
    pub(super) fn enter(&self, device: i32) -> Result<Entered<'_>> {
        const RELAXED: c_int = 2;
        let before = match &self.switch {
            Switch::Cuda { push, .. } => {
                let context = self.context(device)?;
                // SAFETY: a context that is held.
                self.check("enter its context", unsafe { push(context) })?;
                device
            }
            Switch::Rocm { get, set } => {
                let mut before = 0;
                // SAFETY: a place for the number.
                self.check("name the device", unsafe { get(&mut before) })?;
                // SAFETY: a number, which the driver checks.
                self.check("change the device", unsafe { set(device) })?;
                before
            }
        };
        let mut entered = Entered { driver: self, before, capture_mode: RELAXED };
        // SAFETY: a place that has the new mode, and gets the old one.
        let status = unsafe { (self.exchange_capture_mode)(&mut entered.capture_mode) };
        self.check("change its mode of captures", status)?;
        Ok(entered)
    }

    fn context(&self, device: i32) -> Result<ContextHandle> {
        let Switch::Cuda { retain, retained, .. } = &self.switch else { return Ok(0) };
        let mut retained = retained.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&(_, context)) = retained.iter().find(|(number, _)| *number == device) {
            return Ok(context);
        }
        let mut context = 0;
        // SAFETY: a place for the context; the driver checks the number.
        self.check("name the context of the device", unsafe { retain(&mut context, device) })?;
        retained.push((device, context));
        Ok(context)
    }

    /// Where an address is, and of which device: its memory, managed memory, or pinned memory of the host, which
    /// DLPack does not number.
    pub(crate) fn locate(&self, address: usize) -> Result<(Device, i32)> {
        const MEMORY_TYPE: c_int = 2;
        const IS_MANAGED: c_int = 8;
        const DEVICE_ORDINAL: c_int = 9;
        const HOST_MEMORY: c_int = 1;
        let id = self.attribute(address, DEVICE_ORDINAL)?;
        let is_managed = self.attribute(address, IS_MANAGED)? != 0;
        let is_host = || Ok(self.attribute(address, MEMORY_TYPE)? == HOST_MEMORY);
        let device_type = match is_managed {
            true => DeviceType::CUDA_MANAGED,
            false if is_host()? => DeviceType::CUDA_HOST,
            false => DeviceType::CUDA,
        };
        let number = if device_type == DeviceType::CUDA_HOST { 0 } else { id };
        Ok((Device::new(device_type, number), id))
    }

    fn attribute(&self, address: usize, attribute: c_int) -> Result<i32> {
        // All that are asked for are an `int` or an `unsigned int`.
        let mut value = 0_i32;
        // SAFETY: a place for the value; the driver checks the address and does not use it.
        let status =
            unsafe { (self.pointer_attribute)((&raw mut value).cast(), attribute, address as u64) };
        self.check(&format!("say what is at {address:#x}"), status)?;
        Ok(value)
    }
}

/// A device is the current one of this thread.
pub(super) struct Entered<'d> {
    driver: &'d Driver,
    /// The one before.
    before: i32,
    capture_mode: c_int,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // SAFETY: what `enter` pushed; the number of a device. There is nobody to tell of a failure.
        unsafe {
            (self.driver.exchange_capture_mode)(&mut self.capture_mode);
            match self.driver.switch {
                Switch::Cuda { pop, .. } => {
                    let mut context = 0;
                    pop(&mut context);
                }
                Switch::Rocm { set, .. } => {
                    set(self.before);
                }
            }
        }
    }
}

/// The library of a driver, which is never closed again.
struct Functions {
    library: &'static Library,
    driver: &'static str,
}

impl Functions {
    fn open(driver: &'static str, names: &[&str]) -> Result<Self> {
        let mut first = None;
        for name in names {
            // SAFETY: the driver's own library may be loaded at any time.
            match unsafe { Library::new(name) } {
                Ok(library) => return Ok(Self { library: Box::leak(Box::new(library)), driver }),
                Err(error) => first = first.or(Some(error)),
            }
        }
        let reason = first.map(|error| error.to_string()).unwrap_or_default();
        Err(Failure(format!("there is no driver of {driver}: {reason}")))
    }

    /// # Safety
    /// The function is of this type.
    unsafe fn get<F: Copy>(&self, name: &CStr) -> Result<F> {
        // SAFETY: by contract.
        let found = unsafe { self.library.get::<F>(name.to_bytes_with_nul()) };
        found.map(|function| *function).map_err(|error| {
            Failure(format!("the driver of {} cannot be used: {error}", self.driver))
        })
    }

    /// # Safety
    /// The function takes flags and returns a status.
    unsafe fn init(&self, name: &CStr) -> Result<()> {
        // SAFETY: by contract; there are no flags.
        match unsafe { self.get::<unsafe extern "C" fn(c_uint) -> Status>(name)?(0) } {
            0 => Ok(()),
            status => {
                let (driver, name) = (self.driver, CString::from(name));
                let name = name.to_string_lossy();
                Err(Failure(format!(
                    "the driver of {driver} cannot be used: {name} failed with error {status}"
                )))
            }
        }
    }
}
