//! The device and the stream of a call on CUDA.

use std::ffi::c_void;
use std::marker::PhantomData;

use crate::error::Result;

/// The CUDA device and the stream of a call. The caller does not pass it: the framework that calls decides both.
///
/// An operator with this parameter takes tensors on a CUDA device: [`CudaArray`](crate::CudaArray),
/// [`CudaView`](crate::CudaView), [`CudaInPlace`](crate::CudaInPlace) and [`CudaOut`](crate::CudaOut). The call refuses
/// tensors on other devices, and tensors on several devices. The current device of the thread may be another one, so make
/// this device current before you launch a kernel.
///
/// Queue all reads and writes of the tensors on this stream, and do not wait for it: the framework's earlier work on the
/// tensors runs before, and its later work after. The addresses are valid for work that is queued during the call.
///
/// ```no_run
/// use dlbridge_ops::{CudaArray, CudaOut, OnCuda, op};
/// # unsafe fn launch_axpy(_: i32, _: *mut std::ffi::c_void, _: f32, _: *const f32, _: *mut f32, _: usize) -> i32 { 0 }
///
/// /// a * x
/// #[op]
/// fn scale(cuda: OnCuda<'_>, x: CudaArray<'_, f32>, a: f64, mut out: CudaOut<'_, f32>) -> Result<(), String> {
///     let (device, stream) = (cuda.device(), cuda.stream());
///     // SAFETY: both are `len` floats in C order on the device; the kernel is queued on the call's stream.
///     match unsafe { launch_axpy(device, stream, a as f32, x.as_ptr(), out.as_mut_ptr(), x.len()) } {
///         0 => Ok(()),
///         code => Err(format!("the kernel was not launched: CUDA error {code}")),
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct OnCuda<'a> {
    device: i32,
    stream: *mut c_void,
    call: PhantomData<&'a ()>,
}

// SAFETY: the stream is a handle that only the driver dereferences, which any thread may pass to it.
unsafe impl Send for OnCuda<'_> {}
// SAFETY: the methods only return copies of the fields.
unsafe impl Sync for OnCuda<'_> {}

impl OnCuda<'_> {
    pub(crate) fn new(device: i32, stream: *mut c_void) -> Self {
        Self { device, stream, call: PhantomData }
    }

    /// The number of the device.
    ///
    /// ```no_run
    /// fn is_first(cuda: dlbridge_ops::OnCuda<'_>) -> bool {
    ///     cuda.device() == 0
    /// }
    /// ```
    pub fn device(self) -> i32 {
        self.device
    }

    /// The stream: a `cudaStream_t` of the runtime, or a `CUstream` of the driver. NULL is the legacy default stream.
    ///
    /// ```no_run
    /// fn is_default(cuda: dlbridge_ops::OnCuda<'_>) -> bool {
    ///     cuda.stream().is_null()
    /// }
    /// ```
    pub fn stream(self) -> *mut c_void {
        self.stream
    }
}

/// Returns the stream that a program has chosen for a CUDA device.
pub(crate) type StreamOf<'a> = &'a (dyn Fn(i32) -> Result<*mut c_void> + Sync);

/// The default stream, for frameworks whose programs choose none.
#[cfg(feature = "python")]
pub(crate) fn default_stream(_device: i32) -> Result<*mut c_void> {
    Ok(std::ptr::null_mut())
}
