//! Typed arguments whose data stays on its device, with the stream that they are in order with.

use std::ffi::c_void;
use std::marker::PhantomData;

use dlbridge::{DataType, Device, Element, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::DYNAMIC;
use super::accepts::Accepts;
use super::checked;
use super::constraint::Constraint;
use super::convert;
use super::described::described;
use super::expected::{Expected, Place};
use super::refusal::ArgumentError;
use super::stream::{Stream, WorkStream};
use super::taken::Taken;

/// A tensor of any framework as an argument for code that works where the data is: on a GPU, or wherever `C`
/// says. Nothing is copied, and the CPU reads nothing.
///
/// `A`, `N` and `C` are as for [`PyReadonlyTensor`](crate::PyReadonlyTensor), with [`OnCuda`](crate::OnCuda) and
/// its like for the device and [`Writable`](crate::Writable) for data that is written. `S` says which [`Stream`]
/// the code works on: that of the producer by default. There is no way to say none.
///
/// [`data`](Self::data) and [`stream`](Self::stream) are what a kernel is launched with. The data is the producer's
/// again when the argument is dropped; what was launched on its own work stream, or on the default one, is in order
/// with what it does next. On CUDA and ROCm, where the stream is another one, the data goes back when that has passed what is
/// on it then, without anybody having to wait. On other devices whoever works on a stream of his own keeps the argument until then.
///
/// Streams have numbers in DLPack on CUDA and ROCm. On other devices a producer is asked without one and does what
/// it does for all consumers; a stream of your own is refused there, and the exchange API's is passed on as it is.
/// On the CPU there are no streams, and the memory is borrowed as that of other arguments; on a device it is not.
///
/// # Errors
/// Extraction raises one `TypeError` that names all that is different from what was asked for; `BufferError` if
/// the producer cannot synchronise with the stream; and as [`import`](crate::import).
///
/// ```no_run
/// use dlbridge_pyo3::{COrder, OnCuda, PyDeviceTensor, Writable, WorkStream};
/// use pyo3::prelude::*;
/// # unsafe fn launch_scale(data: *mut f32, len: usize, stream: *mut std::ffi::c_void) {}
///
/// /// Doubles a vector of CUDA where it is.
/// #[pyfunction]
/// fn double(x: PyDeviceTensor<'_, f32, 1, WorkStream, (OnCuda, COrder, Writable)>) {
///     // SAFETY: so many floats, adjacent and not read-only, on the stream on which they were made.
///     unsafe { launch_scale(x.data().cast(), x.len(), x.stream()) };
/// }
/// ```
pub struct PyDeviceTensor<'py, A, const N: usize, S = WorkStream, C = ()> {
    taken: Box<Taken<'py>>,
    marker: PhantomData<(A, S, C)>,
}

impl<'py, A: Accepts, const N: usize, S: Stream, C: Constraint> PyDeviceTensor<'py, A, N, S, C> {
    const EXPECTED: &'static Expected = &{
        let requirement = C::REQUIREMENT;
        assert!(
            N == DYNAMIC || requirement.dims.is_empty() || requirement.dims.len() == N,
            "there must be as many extents as dimensions"
        );
        assert!(
            !requirement.allow_copy && !requirement.allow_sequence,
            "what is on a device is taken as it is"
        );
        assert!(A::TIMES.is_empty(), "no protocol has times on a device");
        Expected {
            dtypes: A::DTYPES,
            alignment: A::alignment,
            ndim: if N == DYNAMIC { None } else { Some(N) },
            place: Place::Anywhere,
            requirement,
            mode: if requirement.writable { Mode::Write } else { Mode::Read },
            check: A::check,
            checks: A::checks,
            cast: convert::never,
            times: &[],
            rescale: checked::never,
        }
    };
}

impl<'a, 'py, A: Accepts, const N: usize, S: Stream, C: Constraint> FromPyObject<'a, 'py>
    for PyDeviceTensor<'py, A, N, S, C>
{
    type Error = ArgumentError<'a, 'py>;

    #[cfg(feature = "experimental-inspect")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr =
        pyo3::type_hint_identifier!("dlbridge.typing", "TensorLike");

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Result<Self, Self::Error> {
        let taken = Self::EXPECTED.take_on_device(&object, S::HANDLE);
        let taken = taken.map_err(|refusal| ArgumentError::new(refusal, object))?;
        Ok(Self { taken, marker: PhantomData })
    }
}

impl<'py, A: Accepts, const N: usize, S: Stream, C: Constraint> PyDeviceTensor<'py, A, N, S, C> {
    /// Extraction for code that tries several types: `Ok(None)` for an object that does not fit, without the cost of an
    /// exception.
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
        match Self::EXPECTED.take_on_device(object, S::HANDLE) {
            Ok(taken) => Ok(Some(Self { taken, marker: PhantomData })),
            Err(refusal) => refusal.raised().map(|()| None),
        }
    }
}

described!(PyDeviceTensor, S, C);

impl<A, const N: usize, S, C> PyDeviceTensor<'_, A, N, S, C> {
    /// The address of the element at index zero on the device, or a handle on devices that have handles. NULL
    /// without elements.
    ///
    /// ```no_run
    /// fn address(x: dlbridge_pyo3::PyDeviceTensor<'_, f32, 1>) -> usize {
    ///     x.data().addr()
    /// }
    /// ```
    pub fn data(&self) -> *mut c_void {
        self.taken.tensor().data()
    }

    /// The distance from [`data`](Self::data) to the first element in bytes. It is 0 where `data` is an address.
    ///
    /// ```no_run
    /// fn is_whole_buffer(x: dlbridge_pyo3::PyDeviceTensor<'_, f32, 1>) -> bool {
    ///     x.byte_offset() == 0
    /// }
    /// ```
    pub fn byte_offset(&self) -> u64 {
        self.taken.tensor().byte_offset()
    }

    /// The handle of the stream: what is done on it is done after what the producer has under way. NULL is the
    /// default one, on CUDA the legacy one; and that there are no streams, as on the CPU.
    ///
    /// ```no_run
    /// fn is_on_default_stream(x: dlbridge_pyo3::PyDeviceTensor<'_, f32, 1>) -> bool {
    ///     x.stream().is_null()
    /// }
    /// ```
    pub fn stream(&self) -> *mut c_void {
        self.taken.stream
    }
}
