//! A stand-in for the CUDA driver that uses host memory: `tests/python/cuda_driver.c`. It is not a GPU.
//!
//! It runs queued work only when something waits for it, so a missing wait gives wrong bytes. Without a C compiler the
//! tests are skipped, or fail if `DLBRIDGE_REQUIRE` is set.
#![allow(dead_code, reason = "each test file is its own program, and uses only some functions")]

use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{env, fs, process, ptr, thread};

use cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, CudaView, DevicePtr, DeviceRepr, DeviceSlice,
};
use dlbridge_testing::required;
use libloading::Library;

/// An error code of the driver.
const UNKNOWN: c_int = 999;

/// The functions of the stand-in that return a number and take no argument.
const COUNTS: &[&str] =
    &["stand_in_faults", "stand_in_live_events", "stand_in_live_regions", "stand_in_stream_waits"];

/// The stand-in, which all tests of a program share, one at a time. When a test ends, no memory or event of the driver
/// may be left, and the stand-in must have counted no new fault.
pub(crate) struct Cuda {
    library: &'static Library,
    left: (c_int, c_int),
    faults: c_int,
    _turn: MutexGuard<'static, ()>,
}

/// Returns the stand-in for the driver, or prints the reason and returns `None`.
pub(crate) fn cuda() -> Option<Cuda> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let library = required("stand-in for the CUDA driver", library())?;
    let mut cuda = Cuda { library, left: (0, 0), faults: 0, _turn: turn };
    cuda.left = cuda.lives();
    cuda.faults = cuda.faults();
    Some(cuda)
}

fn library() -> Result<&'static Library, &'static str> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref().map_err(String::as_str)
}

/// Compiles and loads the stand-in. Its soname is the driver's, so cudarc's own load finds the stand-in.
fn load() -> Result<Library, String> {
    if !cfg!(target_os = "linux") {
        return Err("the stand-in needs Linux".to_owned());
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/cuda_driver.c");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("libcuda-{}.so", process::id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-g", "-pthread", "-Wl,-soname,libcuda.so", "-o"]);
    let compiled = compiler.arg(&file).arg(&source).status();
    if !compiled.map_err(|error| format!("cc: {error}"))?.success() {
        return Err("cc failed".to_owned());
    }
    // SAFETY: the library runs no code when it is loaded.
    let library = unsafe { Library::new(&file) }.map_err(|error| error.to_string());
    fs::remove_file(&file).unwrap();
    library
}

impl Cuda {
    /// Returns a function of the stand-in.
    ///
    /// # Safety
    /// `F` must be a pointer to a function of the type that the source declares.
    unsafe fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the caller guarantees the type of the function, and the library stays loaded while the program runs.
        *unsafe { self.library.get::<F>(name.as_bytes()) }.unwrap()
    }

    fn count(&self, name: &str) -> c_int {
        assert!(COUNTS.contains(&name), "{name}");
        // SAFETY: the source declares all `COUNTS` with this type.
        let function: extern "C" fn() -> c_int = unsafe { self.function(name) };
        function()
    }

    /// The number of the driver's live allocations and events.
    fn lives(&self) -> (c_int, c_int) {
        self.finish();
        (self.count("stand_in_live_regions"), self.count("stand_in_live_events"))
    }

    /// The number of live allocations after all queued work.
    pub(crate) fn regions(&self) -> c_int {
        self.lives().0 - self.left.0
    }

    /// The number of live events.
    pub(crate) fn events(&self) -> c_int {
        self.count("stand_in_live_events") - self.left.1
    }

    /// How often the host has waited.
    pub(crate) fn host_waits(&self) -> c_int {
        // SAFETY: the source declares this type.
        let function: extern "C" fn(*mut u64) -> c_int =
            unsafe { self.function("stand_in_synchronized") };
        function(&mut 0)
    }

    /// How often a stream was made to wait for an event.
    pub(crate) fn stream_waits(&self) -> c_int {
        self.count("stand_in_stream_waits")
    }

    /// Turns off the memory pools of the devices.
    pub(crate) fn without_pools(&self) {
        // SAFETY: the source declares this type.
        let function: extern "C" fn() = unsafe { self.function("stand_in_without_pools") };
        function();
    }

    /// Runs `work` while the driver cannot create events.
    pub(crate) fn without_events<R>(&self, work: impl FnOnce() -> R) -> R {
        self.fail_events(true);
        let result = work();
        self.fail_events(false);
        result
    }

    /// Runs `work` while the host cannot wait and the driver cannot create events.
    pub(crate) fn without_waits<R>(&self, work: impl FnOnce() -> R) -> R {
        // SAFETY: the source declares this type.
        let fail: extern "C" fn(c_int) = unsafe { self.function("stand_in_fail_waits") };
        fail(UNKNOWN);
        let result = self.without_events(work);
        fail(0);
        result
    }

    /// Runs `work` while copies from device to device begin, but report an error.
    pub(crate) fn with_failing_copies<R>(&self, work: impl FnOnce() -> R) -> R {
        // SAFETY: the source declares this type.
        let fail: extern "C" fn(c_int) = unsafe { self.function("stand_in_fail_copies") };
        fail(UNKNOWN);
        let result = work();
        fail(0);
        result
    }

    /// Makes the driver refuse new events, or create them again.
    pub(crate) fn fail_events(&self, fails: bool) {
        // SAFETY: the source declares this type.
        let fail: extern "C" fn(c_int) = unsafe { self.function("stand_in_fail_events") };
        fail(if fails { UNKNOWN } else { 0 });
    }

    /// Registers memory and events that the test leaks on purpose.
    pub(crate) fn leaked(&mut self, regions: c_int, events: c_int) {
        self.left.0 += regions;
        self.left.1 += events;
    }

    /// Runs the queued work of all streams.
    pub(crate) fn finish(&self) {
        // The current context may belong to another thread's test, so this uses each device's primary context.
        // SAFETY: the source declares this type.
        let retain: extern "C" fn(*mut *mut c_void, c_int) -> c_int =
            unsafe { self.function("cuDevicePrimaryCtxRetain") };
        // SAFETY: the source declares this type.
        let release: extern "C" fn(c_int) -> c_int =
            unsafe { self.function("cuDevicePrimaryCtxRelease_v2") };
        // SAFETY: the source declares this type.
        let set: extern "C" fn(*mut c_void) -> c_int = unsafe { self.function("cuCtxSetCurrent") };
        // SAFETY: the source declares this type.
        let wait: extern "C" fn() -> c_int = unsafe { self.function("cuCtxSynchronize") };
        let current = self.current();
        for device in 0..2 {
            let mut context = ptr::null_mut();
            assert_eq!((retain(&mut context, device), set(context), wait()), (0, 0, 0));
            assert_eq!(release(device), 0);
        }
        assert_eq!(set(current), 0);
    }

    /// The current context of this thread.
    pub(crate) fn current(&self) -> *mut c_void {
        // SAFETY: the source declares this type.
        let get: extern "C" fn(*mut *mut c_void) -> c_int =
            unsafe { self.function("cuCtxGetCurrent") };
        let mut current = ptr::null_mut();
        assert_eq!(get(&mut current), 0);
        current
    }

    /// Queues a kernel that writes bytes on a stream.
    pub(crate) fn kernel(&self, stream: &CudaStream, address: u64, bytes: &[u8]) {
        type Write = extern "C" fn(usize, u64, *const u8, usize) -> c_int;
        // SAFETY: the source declares this type.
        let write: Write = unsafe { self.function("stand_in_write") };
        stream.context().bind_to_thread().unwrap();
        assert_eq!(write(stream.cu_stream() as usize, address, bytes.as_ptr(), bytes.len()), 0);
    }

    /// The current bytes, before any queued work.
    pub(crate) fn now(&self, address: u64, len: usize) -> Vec<u8> {
        // SAFETY: the source declares this type.
        let read: extern "C" fn(u64, *mut u8, usize) = unsafe { self.function("stand_in_read") };
        let mut bytes = vec![0; len];
        read(address, bytes.as_mut_ptr(), len);
        bytes
    }

    /// The number of new faults that the stand-in has counted.
    pub(crate) fn faults(&self) -> c_int {
        self.count("stand_in_faults") - self.faults
    }

    pub(crate) fn context(&self, ordinal: usize) -> Arc<CudaContext> {
        dlbridge_cuda::context(ordinal).unwrap()
    }

    /// A slice whose elements a queued kernel writes.
    pub(crate) fn slice<T: DeviceRepr + Copy>(
        &self,
        stream: &Arc<CudaStream>,
        elements: &[T],
    ) -> CudaSlice<T> {
        // SAFETY: the queued kernel writes all elements.
        let slice = unsafe { stream.alloc::<T>(elements.len()) }.unwrap();
        self.kernel(stream, address(&slice), bytes(elements));
        slice
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if !thread::panicking() {
            assert_eq!(self.lives(), self.left, "memory or events are left");
            assert_eq!(self.faults(), 0, "faults");
        }
    }
}

/// The address of a slice; cudarc neither waits nor records a use.
pub(crate) fn address<T>(slice: &CudaSlice<T>) -> u64 {
    let (address, note) = slice.device_ptr(slice.stream());
    // Dropping the guard would record a use.
    std::mem::forget(note);
    address
}

pub(crate) fn bytes<T: Copy>(elements: &[T]) -> &[u8] {
    // SAFETY: the tests use only number types, which are free of padding.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// Copies the elements of a view to the host, on a stream.
pub(crate) fn fetched<T: DeviceRepr>(stream: &Arc<CudaStream>, view: &CudaView<'_, T>) -> Vec<T> {
    let fetched = stream.clone_dtoh(view).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(fetched.len(), DeviceSlice::len(view));
    fetched
}
