//! Typed arguments whose data stays on its device, with the stream to work on.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;

use dlbridge::{DataType, Device, Element, TensorRef};
use pyo3::prelude::*;

use super::accepts::Accepts;
use super::borrowed::BorrowedArgument;
use super::constraint::Constraint;
use super::described::described;
use super::refusal::ArgumentError;
use super::spec::ArgumentSpec;

/// A tensor of any framework, for code that works on its device: on a GPU, or on the devices that `C` names. It
/// copies nothing, and the CPU does not read the data.
///
/// `A`, `N` and `C` are as for [`PyReadonlyTensor`](crate::PyReadonlyTensor), with [`OnCuda`](crate::OnCuda) and
/// similar constraints for the device, and [`Writable`](crate::Writable) for data that is written. `S` names the
/// [`Stream`] that the code works on, by default the producer's. No choice of `S` requests unsynchronised data.
///
/// Launch kernels with [`data`](Self::data) and [`stream`](Self::stream). Dropping the argument returns the data to
/// the producer. Work that was launched on the producer's work stream, or on the default stream, runs before the
/// producer's next work. For another stream of CUDA or ROCm, the data is returned when that stream has finished the
/// work queued on it at that time; no thread waits for it. On other devices, code that uses its own stream must keep
/// the argument until its work has finished.
///
/// DLPack numbers the streams of CUDA and ROCm. For other devices, the producer gets no stream and does the same as
/// for all consumers; a stream of your own is refused, and a stream from the exchange API is passed on unchanged. The
/// CPU lacks streams, and host memory is borrowed like that of other arguments; device memory is not.
///
/// # Errors
/// Extraction raises one `TypeError` that names all differences from the demands; `BufferError` if the producer
/// cannot synchronise with the stream; and the errors of [`import`](crate::import).
///
/// ```no_run
/// use dlbridge_pyo3::{COrder, OnCuda, PyDeviceTensor, Writable, WorkStream};
/// use pyo3::prelude::*;
/// # unsafe fn launch_scale(data: *mut f32, len: usize, stream: *mut std::ffi::c_void) {}
///
/// /// Doubles a vector on its CUDA device.
/// #[pyfunction]
/// fn double(x: PyDeviceTensor<'_, f32, 1, WorkStream, (OnCuda, COrder, Writable)>) {
///     // SAFETY: the constraints make it `len` contiguous and writable floats; the stream is the producer's.
///     unsafe { launch_scale(x.data().cast(), x.len(), x.stream()) };
/// }
/// ```
pub struct PyDeviceTensor<'py, A, const N: usize, S = WorkStream, C = ()> {
    argument: Box<BorrowedArgument<'py>>,
    marker: PhantomData<(A, S, C)>,
}

impl<'py, A: Accepts, const N: usize, S: Stream, C: Constraint> PyDeviceTensor<'py, A, N, S, C> {
    const SPEC: &'static ArgumentSpec = &C::SPEC.on_device::<A, N>();
}

impl<'a, 'py, A: Accepts, const N: usize, S: Stream, C: Constraint> FromPyObject<'a, 'py>
    for PyDeviceTensor<'py, A, N, S, C>
{
    type Error = ArgumentError<'a, 'py>;

    #[cfg(feature = "experimental-inspect")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr =
        pyo3::type_hint_identifier!("dlbridge.typing", "TensorLike");

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Result<Self, Self::Error> {
        let argument = Self::SPEC.import_on_device(&object, S::HANDLE);
        let argument = argument.map_err(|refusal| ArgumentError::new(refusal, object))?;
        Ok(Self { argument, marker: PhantomData })
    }
}

impl<'py, A: Accepts, const N: usize, S: Stream, C: Constraint> PyDeviceTensor<'py, A, N, S, C> {
    /// Extraction for code that tries several types: `Ok(None)` for an object that does not fit, without the cost of
    /// an exception.
    ///
    /// # Errors
    /// As for [`PyReadonlyTensor::try_extract`](crate::PyReadonlyTensor::try_extract); also a `BufferError` if the producer
    /// cannot synchronise with the stream.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::{OnCuda, PyDeviceTensor, WorkStream};
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn is_on_cuda(x: &Bound<'_, PyAny>) -> PyResult<bool> {
    ///     Ok(PyDeviceTensor::<f32, 1, WorkStream, OnCuda>::try_extract(x)?.is_some())
    /// }
    /// ```
    pub fn try_extract(object: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        match Self::SPEC.import_on_device(object, S::HANDLE) {
            Ok(argument) => Ok(Some(Self { argument, marker: PhantomData })),
            Err(refusal) => refusal.raised().map(|()| None),
        }
    }
}

described!(PyDeviceTensor, S, C);

impl<A, const N: usize, S, C> PyDeviceTensor<'_, A, N, S, C> {
    /// The address of the element at index zero on the device, or a handle on devices that use handles. NULL for an
    /// empty tensor.
    ///
    /// ```no_run
    /// fn address(x: dlbridge_pyo3::PyDeviceTensor<'_, f32, 1>) -> usize {
    ///     x.data().addr()
    /// }
    /// ```
    pub fn data(&self) -> *mut c_void {
        self.argument.tensor().data()
    }

    /// The distance in bytes from [`data`](Self::data) to the first element; 0 if `data` is an address.
    ///
    /// ```no_run
    /// fn is_whole_buffer(x: dlbridge_pyo3::PyDeviceTensor<'_, f32, 1>) -> bool {
    ///     x.byte_offset() == 0
    /// }
    /// ```
    pub fn byte_offset(&self) -> u64 {
        self.argument.tensor().byte_offset()
    }

    /// The handle of the stream. Work that is queued on it runs after the producer's pending writes. NULL is the
    /// default stream (on CUDA the legacy one), or means that the device lacks streams, like the CPU.
    ///
    /// ```no_run
    /// fn is_on_default_stream(x: dlbridge_pyo3::PyDeviceTensor<'_, f32, 1>) -> bool {
    ///     x.stream().is_null()
    /// }
    /// ```
    pub fn stream(&self) -> *mut c_void {
        self.argument.stream
    }
}

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
