//! A stand-in for the CUDA driver, over memory of the host: `tests/python/cuda_driver.c`. It is not a GPU.
//!
//! It does what it is given when somebody waits for it, so bytes come out right only where the waits are. Where there
//! is no C compiler nothing is tried, which is a failure where `DLBRIDGE_REQUIRE` is set.
#![allow(dead_code, reason = "each test file is a program of its own, and none needs all")]

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

/// An error of the driver.
const UNKNOWN: c_int = 999;

/// The functions of the stand-in that return a number and take no argument.
const COUNTS: &[&str] =
    &["stand_in_faults", "stand_in_live_events", "stand_in_live_regions", "stand_in_stream_waits"];

/// The stand-in, which all tests of a program share: one at a time has it. When it is given back, nothing of the
/// driver's may be left, and nothing may have been done that must not be.
pub(crate) struct Cuda {
    library: &'static Library,
    left: (c_int, c_int),
    faults: c_int,
    _turn: MutexGuard<'static, ()>,
}

/// The stand-in in the driver's place, or nothing, with the reason printed.
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

/// A library that is loaded is what its own name stands for: cudarc finds this one as the driver's.
fn load() -> Result<Library, String> {
    if !cfg!(target_os = "linux") {
        return Err("it is for Linux".to_owned());
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
    // SAFETY: it has nothing to run when it is loaded.
    let library = unsafe { Library::new(&file) }.map_err(|error| error.to_string());
    fs::remove_file(&file).unwrap();
    library
}

impl Cuda {
    /// A function of the stand-in.
    ///
    /// # Safety
    /// `F` is a pointer to a function of the type that it has in the source.
    unsafe fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the caller guarantees the type of the function, which the library has as long as the program runs.
        *unsafe { self.library.get::<F>(name.as_bytes()) }.unwrap()
    }

    fn count(&self, name: &str) -> c_int {
        assert!(COUNTS.contains(&name), "{name}");
        // SAFETY: the type of all `COUNTS` in the source.
        let function: extern "C" fn() -> c_int = unsafe { self.function(name) };
        function()
    }

    /// The driver's memory that is not free, and its events.
    fn lives(&self) -> (c_int, c_int) {
        self.finish();
        (self.count("stand_in_live_regions"), self.count("stand_in_live_events"))
    }

    /// Memory that is not free, when all that was to be done is.
    pub(crate) fn regions(&self) -> c_int {
        self.lives().0 - self.left.0
    }

    /// Events that live.
    pub(crate) fn events(&self) -> c_int {
        self.count("stand_in_live_events") - self.left.1
    }

    /// How often the host has waited.
    pub(crate) fn host_waits(&self) -> c_int {
        // SAFETY: the type in the source.
        let function: extern "C" fn(*mut u64) -> c_int =
            unsafe { self.function("stand_in_synchronized") };
        function(&mut 0)
    }

    /// How often a stream was made to wait for an event.
    pub(crate) fn stream_waits(&self) -> c_int {
        self.count("stand_in_stream_waits")
    }

    /// Takes the pools of memory from the devices.
    pub(crate) fn without_pools(&self) {
        // SAFETY: the type in the source.
        let function: extern "C" fn() = unsafe { self.function("stand_in_without_pools") };
        function();
    }

    /// No event is to be had while `work` is done.
    pub(crate) fn without_events<R>(&self, work: impl FnOnce() -> R) -> R {
        self.fail_events(true);
        let result = work();
        self.fail_events(false);
        result
    }

    /// The host cannot wait while `work` is done, and no event is to be had.
    pub(crate) fn without_waits<R>(&self, work: impl FnOnce() -> R) -> R {
        // SAFETY: the type in the source.
        let fail: extern "C" fn(c_int) = unsafe { self.function("stand_in_fail_waits") };
        fail(UNKNOWN);
        let result = self.without_events(work);
        fail(0);
        result
    }

    /// Copies from device to device report an error while `work` is done, although they begin.
    pub(crate) fn with_failing_copies<R>(&self, work: impl FnOnce() -> R) -> R {
        // SAFETY: the type in the source.
        let fail: extern "C" fn(c_int) = unsafe { self.function("stand_in_fail_copies") };
        fail(UNKNOWN);
        let result = work();
        fail(0);
        result
    }

    /// Whether there are no events from here on.
    pub(crate) fn fail_events(&self, fails: bool) {
        // SAFETY: the type in the source.
        let fail: extern "C" fn(c_int) = unsafe { self.function("stand_in_fail_events") };
        fail(if fails { UNKNOWN } else { 0 });
    }

    /// Memory and events that are never given back, as is right.
    pub(crate) fn leaked(&mut self, regions: c_int, events: c_int) {
        self.left.0 += regions;
        self.left.1 += events;
    }

    /// All streams do what they have.
    pub(crate) fn finish(&self) {
        // Another thread's context is none of this one's.
        // SAFETY: the type in the source.
        let retain: extern "C" fn(*mut *mut c_void, c_int) -> c_int =
            unsafe { self.function("cuDevicePrimaryCtxRetain") };
        // SAFETY: the type in the source.
        let release: extern "C" fn(c_int) -> c_int =
            unsafe { self.function("cuDevicePrimaryCtxRelease_v2") };
        // SAFETY: the type in the source.
        let set: extern "C" fn(*mut c_void) -> c_int = unsafe { self.function("cuCtxSetCurrent") };
        // SAFETY: the type in the source.
        let wait: extern "C" fn() -> c_int = unsafe { self.function("cuCtxSynchronize") };
        let current = self.current();
        for device in 0..2 {
            let mut context = ptr::null_mut();
            assert_eq!((retain(&mut context, device), set(context), wait()), (0, 0, 0));
            assert_eq!(release(device), 0);
        }
        assert_eq!(set(current), 0);
    }

    /// The context of this thread.
    pub(crate) fn current(&self) -> *mut c_void {
        // SAFETY: the type in the source.
        let get: extern "C" fn(*mut *mut c_void) -> c_int =
            unsafe { self.function("cuCtxGetCurrent") };
        let mut current = ptr::null_mut();
        assert_eq!(get(&mut current), 0);
        current
    }

    /// A kernel that writes bytes when its stream gets there.
    pub(crate) fn kernel(&self, stream: &CudaStream, address: u64, bytes: &[u8]) {
        type Write = extern "C" fn(usize, u64, *const u8, usize) -> c_int;
        // SAFETY: the type in the source.
        let write: Write = unsafe { self.function("stand_in_write") };
        stream.context().bind_to_thread().unwrap();
        assert_eq!(write(stream.cu_stream() as usize, address, bytes.as_ptr(), bytes.len()), 0);
    }

    /// The bytes of now, whatever is still to be done.
    pub(crate) fn now(&self, address: u64, len: usize) -> Vec<u8> {
        // SAFETY: the type in the source.
        let read: extern "C" fn(u64, *mut u8, usize) = unsafe { self.function("stand_in_read") };
        let mut bytes = vec![0; len];
        read(address, bytes.as_mut_ptr(), len);
        bytes
    }

    /// What was done that must not be.
    pub(crate) fn faults(&self) -> c_int {
        self.count("stand_in_faults") - self.faults
    }

    pub(crate) fn context(&self, ordinal: usize) -> Arc<CudaContext> {
        dlbridge_cuda::context(ordinal).unwrap()
    }

    /// A slice whose elements a kernel is still to write.
    pub(crate) fn slice<T: DeviceRepr + Copy>(
        &self,
        stream: &Arc<CudaStream>,
        elements: &[T],
    ) -> CudaSlice<T> {
        // SAFETY: written by the kernel.
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

/// The address of a slice, without a wait or a note.
pub(crate) fn address<T>(slice: &CudaSlice<T>) -> u64 {
    let (address, note) = slice.device_ptr(slice.stream());
    // The note would be one of a use.
    std::mem::forget(note);
    address
}

pub(crate) fn bytes<T: Copy>(elements: &[T]) -> &[u8] {
    // SAFETY: the tests have numbers alone.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// The elements of a view, copied on a stream.
pub(crate) fn fetched<T: DeviceRepr>(stream: &Arc<CudaStream>, view: &CudaView<'_, T>) -> Vec<T> {
    let fetched = stream.clone_dtoh(view).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(fetched.len(), DeviceSlice::len(view));
    fetched
}
