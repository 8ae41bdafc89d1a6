//! The stream that an argument on a device is synchronised with.

use std::ffi::c_void;
use std::ptr;

use dlbridge::Device;
use pyo3::prelude::*;

/// The stream on which a function works on a [`PyDeviceTensor`](crate::PyDeviceTensor): [`WorkStream`],
/// [`DefaultStream`], or one of your own.
///
/// # Safety
/// The handles must be live streams of the device, and all reads of the argument must run on them: the producer
/// passes the handles to the device's driver.
///
/// ```no_run
/// use std::ffi::c_void;
///
/// use dlbridge::Device;
/// use dlbridge_pyo3::{OnCuda, PyDeviceTensor, Stream};
/// use pyo3::prelude::*;
///
/// /// The stream that this extension made when it was imported.
/// struct Ours;
/// # fn cuda_stream(_: i32) -> PyResult<*mut c_void> { Ok(std::ptr::null_mut()) }
///
/// // SAFETY: made for the device, and never destroyed; all kernels of the extension run on it.
/// unsafe impl Stream for Ours {
///     const HANDLE: Option<fn(Device) -> PyResult<*mut c_void>> = Some(|device| cuda_stream(device.id()));
/// }
///
/// #[pyfunction]
/// fn scale(x: PyDeviceTensor<'_, f32, 1, Ours, OnCuda>) {
///     // The producer makes `Ours` wait for its pending writes.
/// }
/// ```
pub unsafe trait Stream: 'static {
    /// Returns the handle of the stream for data on a device; NULL is the device's default stream. Called once for
    /// each argument that is not on the CPU; an error that it raises is the error of the call. `None` selects the
    /// producer's stream.
    ///
    /// ```no_run
    /// use dlbridge::{Device, DeviceType};
    /// use dlbridge_pyo3::{DefaultStream, Stream};
    ///
    /// let handle = DefaultStream::HANDLE.unwrap();
    /// assert!(handle(Device::new(DeviceType::CUDA, 0)).unwrap().is_null());
    /// ```
    const HANDLE: Option<fn(Device) -> PyResult<*mut c_void>>;
}

/// The stream on which the producer works, so no thread or stream waits: the function's work there runs after the
/// producer's pending writes and before its next work. A producer without a C exchange API cannot name its stream,
/// and synchronises with the device's default stream instead.
///
/// ```no_run
/// use dlbridge_pyo3::{PyDeviceTensor, WorkStream};
///
/// fn stream(x: PyDeviceTensor<'_, f32, 1, WorkStream>) -> usize {
///     x.stream().addr()
/// }
/// ```
pub struct WorkStream;

// SAFETY: this type returns no handle.
unsafe impl Stream for WorkStream {
    const HANDLE: Option<fn(Device) -> PyResult<*mut c_void>> = None;
}

/// The device's default stream: on CUDA the legacy one.
///
/// ```no_run
/// use dlbridge_pyo3::{DefaultStream, PyDeviceTensor};
///
/// fn is_default(x: PyDeviceTensor<'_, f32, 1, DefaultStream>) -> bool {
///     x.stream().is_null()
/// }
/// ```
pub struct DefaultStream;

// SAFETY: NULL is the default stream, which always exists.
unsafe impl Stream for DefaultStream {
    const HANDLE: Option<fn(Device) -> PyResult<*mut c_void>> = Some(|_| Ok(ptr::null_mut()));
}
