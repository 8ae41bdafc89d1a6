//! The drivers of CUDA and ROCm: their functions, loaded when first needed, if the machine has the library.
//!
//! Both have the same functions under other names, except those that select the device of a thread.
//!
//! Source: the documentation of the CUDA driver API and of HIP.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use dlbridge::{Device, DeviceType};
use libloading::Library;

/// The loaded drivers, each kept for ever. Threads that are not attached to Python use them too.
static CUDA: AtomicPtr<Driver> = AtomicPtr::new(ptr::null_mut());
static ROCM: AtomicPtr<Driver> = AtomicPtr::new(ptr::null_mut());

/// The error number of a driver, where 0 is success.
pub(super) type Status = c_int;
/// A handle is a pointer that this crate never dereferences.
pub type StreamHandle = usize;
pub(super) type EventHandle = usize;
pub(super) type ContextHandle = usize;

/// The reason why a call of a driver failed, as a sentence, with the driver's error number if the driver refused.
///
/// ```
/// use dlbridge::DeviceType;
/// use dlbridge_gpu::Driver;
///
/// if let Err(failure) = Driver::of(DeviceType::CUDA) {
///     assert!(!failure.to_string().is_empty());
/// }
/// ```
#[derive(Debug)]
pub struct Failure {
    text: String,
    status: Option<Status>,
    out_of_memory: bool,
}

impl Failure {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), status: None, out_of_memory: false }
    }

    /// An error of the core.
    pub(super) fn core(error: dlbridge::Error) -> Self {
        let out_of_memory = matches!(error, dlbridge::Error::OutOfMemory { .. });
        Self { text: error.to_string(), status: None, out_of_memory }
    }

    /// Returns true if memory of the device or of the CPU was exhausted.
    ///
    /// ```
    /// use dlbridge::DeviceType;
    /// use dlbridge_gpu::Driver;
    ///
    /// if let Err(failure) = Driver::of(DeviceType::ROCM) {
    ///     assert!(!failure.is_out_of_memory());
    /// }
    /// ```
    pub fn is_out_of_memory(&self) -> bool {
        self.out_of_memory
    }

    /// Returns true if the driver or the context has ended, and all streams with it.
    pub(super) fn is_the_end(&self) -> bool {
        const NOT_INITIALIZED: Status = 3;
        const DEINITIALIZED: Status = 4;
        const CONTEXT_IS_DESTROYED: Status = 709;
        matches!(self.status, Some(NOT_INITIALIZED | DEINITIALIZED | CONTEXT_IS_DESTROYED))
    }

    /// Returns true if the driver refused because a graph is being captured.
    pub(super) fn is_about_a_capture(&self) -> bool {
        matches!(self.status, Some(900..=908))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// The result of a call of a driver.
///
/// ```
/// use dlbridge::DeviceType;
///
/// fn name_of_driver() -> dlbridge_gpu::Result<()> {
///     dlbridge_gpu::Driver::of(DeviceType::CUDA).map(drop)
/// }
/// # let _ = name_of_driver();
/// ```
pub type Result<T> = std::result::Result<T, Failure>;

/// A loaded driver: its functions that this crate calls.
///
/// ```
/// use dlbridge::DeviceType;
/// use dlbridge_gpu::Driver;
///
/// // A loaded driver is kept for ever.
/// let found: Option<&'static Driver> = Driver::of(DeviceType::CUDA).ok();
/// # let _ = found;
/// ```
pub struct Driver {
    pub(super) name: &'static str,
    error_name: ErrorName,
    pub(super) switch: Switch,
    pub(super) event_create: unsafe extern "C" fn(*mut EventHandle, c_uint) -> Status,
    pub(super) event_record: unsafe extern "C" fn(EventHandle, StreamHandle) -> Status,
    pub(super) event_query: unsafe extern "C" fn(EventHandle) -> Status,
    pub(super) stream_context: StreamContext,
    pub(super) event_synchronize: unsafe extern "C" fn(EventHandle) -> Status,
    pub(super) event_destroy: unsafe extern "C" fn(EventHandle) -> Status,
    pub(super) stream_wait_event: unsafe extern "C" fn(StreamHandle, EventHandle, c_uint) -> Status,
    pub(super) stream_capture_info:
        unsafe extern "C" fn(StreamHandle, *mut c_int, *mut u64) -> Status,
    pub(super) exchange_capture_mode: unsafe extern "C" fn(*mut c_int) -> Status,
    pub(super) memory: Option<MemoryFunctions>,
}

/// The functions for memory, which dlbridge copies only on CUDA.
#[derive(Clone, Copy)]
pub(super) struct MemoryFunctions {
    pointer_attribute: unsafe extern "C" fn(*mut c_void, c_int, u64) -> Status,
    device_attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> Status,
    pub(super) alloc: unsafe extern "C" fn(*mut u64, usize) -> Status,
    pub(super) alloc_async: unsafe extern "C" fn(*mut u64, usize, StreamHandle) -> Status,
    pub(super) free: unsafe extern "C" fn(u64) -> Status,
    pub(super) free_async: unsafe extern "C" fn(u64, StreamHandle) -> Status,
    pub(super) copy_peer_async:
        unsafe extern "C" fn(u64, ContextHandle, u64, ContextHandle, usize, StreamHandle) -> Status,
    pub(super) host_alloc: unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> Status,
    pub(super) copy_async: unsafe extern "C" fn(u64, u64, usize, StreamHandle) -> Status,
}

enum ErrorName {
    Cuda(unsafe extern "C" fn(Status, *mut *const c_char) -> Status),
    Rocm(unsafe extern "C" fn(Status) -> *const c_char),
}

/// The way to find the device of a stream.
#[derive(Clone, Copy)]
pub(super) enum StreamContext {
    /// By its context: make it the current one, and query the current device.
    Cuda {
        of_stream: unsafe extern "C" fn(StreamHandle, *mut ContextHandle) -> Status,
        device: unsafe extern "C" fn(*mut c_int) -> Status,
    },
    Rocm(unsafe extern "C" fn(StreamHandle, *mut c_int) -> Status),
}

/// The way to select the device of a thread.
#[derive(Clone, Copy)]
pub(super) enum Switch {
    /// By a stack of contexts. The primary context of a device, which all libraries share, is retained as long as the
    /// process lives.
    Cuda {
        retain: unsafe extern "C" fn(*mut ContextHandle, c_int) -> Status,
        push: unsafe extern "C" fn(ContextHandle) -> Status,
        pop: unsafe extern "C" fn(*mut ContextHandle) -> Status,
    },
    /// By the number of the device.
    Rocm {
        get: unsafe extern "C" fn(*mut c_int) -> Status,
        set: unsafe extern "C" fn(c_int) -> Status,
    },
}

const CUDA_LIBRARIES: &[&str] =
    if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };

const ROCM_LIBRARIES: &[&str] = if cfg!(windows) {
    &["amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"]
} else {
    &["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"]
};

impl Driver {
    /// Returns the driver for the devices of a type. Each call tries again to find a missing driver: another library
    /// may have loaded it since.
    ///
    /// # Errors
    /// Returns an error if the library of the driver is missing, lacks a function, or does not start.
    ///
    /// ```
    /// use dlbridge::DeviceType;
    /// use dlbridge_gpu::Driver;
    ///
    /// match Driver::of(DeviceType::CUDA) {
    ///     Ok(_) => println!("found a driver"),
    ///     Err(failure) => println!("{failure}"),
    /// }
    /// ```
    pub fn of(device_type: DeviceType) -> Result<&'static Self> {
        match device_type {
            DeviceType::ROCM => Self::once(&ROCM, "ROCm", ROCM_LIBRARIES, Self::load_rocm),
            _ => Self::once(&CUDA, "CUDA", CUDA_LIBRARIES, Self::load_cuda),
        }
    }

    fn once(
        driver: &'static AtomicPtr<Self>,
        name: &'static str,
        libraries: &[&str],
        load: fn(&Functions) -> Result<Self>,
    ) -> Result<&'static Self> {
        // SAFETY: the pointer is NULL, or the address of a driver that was leaked below, which no code writes or frees.
        if let Some(known) = unsafe { driver.load(Ordering::Acquire).as_ref() } {
            return Ok(known);
        }
        let loaded = load(&Functions::open(name, libraries)?)?;
        let new = ptr::from_mut(Box::leak(Box::new(loaded)));
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let first = driver.compare_exchange(ptr::null_mut(), new, success, failure);
        // If another thread was first, use its driver; this one stays leaked.
        // SAFETY: the address is that of a driver that was leaked here, by this thread or another one.
        Ok(unsafe { &*first.map_or_else(|first| first, |_| new) })
    }

    fn load_cuda(library: &Functions) -> Result<Self> {
        // SAFETY: the types of the fields are those of the driver's documentation.
        unsafe {
            library.init(c"cuInit")?;
            Ok(Self {
                name: "CUDA",
                error_name: ErrorName::Cuda(library.get(c"cuGetErrorName")?),
                switch: Switch::Cuda {
                    retain: library.get(c"cuDevicePrimaryCtxRetain")?,
                    push: library.get(c"cuCtxPushCurrent_v2")?,
                    pop: library.get(c"cuCtxPopCurrent_v2")?,
                },
                stream_context: StreamContext::Cuda {
                    of_stream: library.get(c"cuStreamGetCtx")?,
                    device: library.get(c"cuCtxGetDevice")?,
                },
                event_create: library.get(c"cuEventCreate")?,
                event_record: library.get(c"cuEventRecord")?,
                event_query: library.get(c"cuEventQuery")?,
                event_synchronize: library.get(c"cuEventSynchronize")?,
                event_destroy: library.get(c"cuEventDestroy_v2")?,
                stream_wait_event: library.get(c"cuStreamWaitEvent")?,
                stream_capture_info: library.get(c"cuStreamGetCaptureInfo")?,
                exchange_capture_mode: library.get(c"cuThreadExchangeStreamCaptureMode")?,
                memory: Some(MemoryFunctions {
                    pointer_attribute: library.get(c"cuPointerGetAttribute")?,
                    device_attribute: library.get(c"cuDeviceGetAttribute")?,
                    alloc: library.get(c"cuMemAlloc_v2")?,
                    alloc_async: library.get(c"cuMemAllocAsync")?,
                    free: library.get(c"cuMemFree_v2")?,
                    free_async: library.get(c"cuMemFreeAsync")?,
                    copy_peer_async: library.get(c"cuMemcpyPeerAsync")?,
                    host_alloc: library.get(c"cuMemHostAlloc")?,
                    copy_async: library.get(c"cuMemcpyAsync")?,
                }),
            })
        }
    }

    fn load_rocm(library: &Functions) -> Result<Self> {
        // SAFETY: the types of the fields are those of the driver's documentation.
        unsafe {
            library.init(c"hipInit")?;
            Ok(Self {
                name: "ROCm",
                error_name: ErrorName::Rocm(library.get(c"hipGetErrorName")?),
                switch: Switch::Rocm {
                    get: library.get(c"hipGetDevice")?,
                    set: library.get(c"hipSetDevice")?,
                },
                stream_context: StreamContext::Rocm(library.get(c"hipStreamGetDevice")?),
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

    /// Converts the status of a call to an error, unless it is success.
    pub(super) fn check(&self, function: &str, status: Status) -> Result<()> {
        const OUT_OF_MEMORY: Status = 2;
        if status == 0 {
            return Ok(());
        }
        let mut name = ptr::null();
        // SAFETY: `name` is writable. The driver stores or returns NULL or a C string that lives as long as the driver.
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
        let text = format!("{driver}'s driver refused to {function}: error {status}, {name}");
        Err(Failure { text, status: Some(status), out_of_memory: status == OUT_OF_MEMORY })
    }

    /// Returns the DLPack device of an address: device memory, managed memory, or pinned host memory, whose number is 0
    /// in DLPack. The second value is the number of the device that the driver reports for the address.
    ///
    /// # Errors
    /// Returns an error if the driver does not know the address.
    ///
    /// ```
    /// use dlbridge::DeviceType;
    /// use dlbridge_gpu::Driver;
    ///
    /// if let Ok(driver) = Driver::of(DeviceType::CUDA) {
    ///     assert!(driver.locate(0).is_err());
    /// }
    /// ```
    pub fn locate(&self, address: usize) -> Result<(Device, i32)> {
        const CONTEXT: c_int = 1;
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
        // Memory of pools lacks a context.
        let mut context = 0_usize;
        let asked = self.ask(address, CONTEXT, (&raw mut context).cast());
        if device_type == DeviceType::CUDA && asked.is_ok() && context != 0 {
            let primary = self.context(id)?;
            if context != primary {
                return Err(Failure::new(format!(
                    "the memory at {address:#x} belongs to a context that is not the primary context of its device, \
                     which libraries share"
                )));
            }
        }
        // Managed memory keeps the number of its GPU, although DLPack gives it 0: the stream to synchronise with is on that GPU.
        let number = if device_type == DeviceType::CUDA_HOST { 0 } else { id };
        Ok((Device::new(device_type, number), id))
    }

    fn attribute(&self, address: usize, attribute: c_int) -> Result<i32> {
        // All attributes that `locate` reads by this function are an `int` or an `unsigned int`.
        let mut value = 0_i32;
        self.ask(address, attribute, (&raw mut value).cast())?;
        Ok(value)
    }

    fn ask(&self, address: usize, attribute: c_int, value: *mut c_void) -> Result<()> {
        // SAFETY: `value` is writable and as large as the attribute; the driver checks the address and does not use it.
        let status =
            unsafe { (self.memory()?.pointer_attribute)(value, attribute, address as u64) };
        self.check(&format!("report the memory at {address:#x}"), status)
    }

    /// Returns the functions for memory, or an error if dlbridge does not copy on this driver.
    pub(super) fn memory(&self) -> Result<&MemoryFunctions> {
        self.memory
            .as_ref()
            .ok_or_else(|| Failure::new(format!("dlbridge does not copy on {}", self.name)))
    }

    /// Returns true if memory of a device can be allocated and freed on a stream.
    pub(super) fn has_pools(&self, device: i32) -> bool {
        const MEMORY_POOLS_SUPPORTED: c_int = 115;
        let mut value = 0;
        // SAFETY: `value` is writable.
        self.memory().is_ok_and(|functions| unsafe {
            (functions.device_attribute)(&mut value, MEMORY_POOLS_SUPPORTED, device) == 0
                && value != 0
        })
    }
}

/// The library of a driver, which is never closed.
struct Functions {
    library: ManuallyDrop<Library>,
    driver: &'static str,
}

impl Functions {
    fn open(driver: &'static str, names: &[&str]) -> Result<Self> {
        let mut first = None;
        for name in names {
            // SAFETY: the drivers' libraries have initialisers that may run at any time.
            match unsafe { Library::new(name) } {
                Ok(library) => return Ok(Self { library: ManuallyDrop::new(library), driver }),
                Err(error) => first = first.or(Some(error)),
            }
        }
        let reason = first.map(|error| error.to_string()).unwrap_or_default();
        Err(Failure::new(format!("no {driver} driver was found: {reason}")))
    }

    /// # Safety
    /// The function `name` has the type `F`.
    unsafe fn get<F: Copy>(&self, name: &CStr) -> Result<F> {
        // SAFETY: the caller guarantees the type. The library is never closed, so the function stays.
        let found = unsafe { self.library.get::<F>(name.to_bytes_with_nul()) };
        found.map(|function| *function).map_err(|error| {
            Failure::new(format!("the driver of {} cannot be used: {error}", self.driver))
        })
    }

    /// # Safety
    /// The function `name` takes flags and returns a status.
    unsafe fn init(&self, name: &CStr) -> Result<()> {
        // SAFETY: the caller guarantees the type; 0 means no flags, the only value that drivers accept.
        match unsafe { self.get::<unsafe extern "C" fn(c_uint) -> Status>(name)?(0) } {
            0 => Ok(()),
            status => {
                let (driver, name) = (self.driver, CString::from(name));
                let name = name.to_string_lossy();
                Err(Failure::new(format!(
                    "the driver of {driver} cannot be used: {name} failed with error {status}"
                )))
            }
        }
    }
}
