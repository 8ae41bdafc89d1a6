//! The stream that an argument on a device is in order with.

use std::ffi::c_void;
use std::ptr;

use dlbridge::Device;
use pyo3::prelude::*;

/// The stream on which a function works on a [`PyDeviceTensor`](crate::PyDeviceTensor): [`WorkStream`],
/// [`DefaultStream`], or one of your own.
///
/// # Safety
/// The handles are those of live streams of the device, on which what is read of the argument is read: a
/// producer passes them to the device's driver.
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
///     // The producer was asked to make `Ours` wait for what it has under way.
/// }
/// ```
pub unsafe trait Stream: 'static {
    /// Tells the handle of the stream for data on a device, NULL for its default one; it is called once for an
    /// argument that is not on the CPU, and what it raises is the error of the call. `None` for the stream of the
    /// producer.
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

/// The stream on which the producer works, so that nobody waits: what the function does there comes after what
/// the producer has under way, and before what it does next. A producer that cannot tell it, since it has no C
/// exchange API, is asked for the default stream of the device.
///
/// ```no_run
/// use dlbridge_pyo3::{PyDeviceTensor, WorkStream};
///
/// fn stream(x: PyDeviceTensor<'_, f32, 1, WorkStream>) -> usize {
///     x.stream().addr()
/// }
/// ```
pub struct WorkStream;

// SAFETY: nothing is handed out.
unsafe impl Stream for WorkStream {
    const HANDLE: Option<fn(Device) -> PyResult<*mut c_void>> = None;
}

/// The default stream of the device: on CUDA the legacy one.
///
/// ```no_run
/// use dlbridge_pyo3::{DefaultStream, PyDeviceTensor};
///
/// fn is_default(x: PyDeviceTensor<'_, f32, 1, DefaultStream>) -> bool {
///     x.stream().is_null()
/// }
/// ```
pub struct DefaultStream;

// SAFETY: NULL is a stream that always lives.
unsafe impl Stream for DefaultStream {
    const HANDLE: Option<fn(Device) -> PyResult<*mut c_void>> = Some(|_| Ok(ptr::null_mut()));
}
