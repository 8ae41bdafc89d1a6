//! A tensor in use as memory of cudarc.
//!
//! - **Borrowed.** The memory belongs to the producer. A `CudaSlice` over it would free it, so callers never receive
//!   one, nor a mutable reference to one, which they could swap with their own.

use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtrMut, DriverError};
use dlbridge::{Access, DeviceType, Element, Tensor, TensorRef};

use crate::order::{self, Order};
use crate::{Error, Result};

/// A tensor's memory for use with cudarc, made by [`TensorExt::into_cuda`](crate::TensorExt::into_cuda).
///
/// Dropping it makes the tensor's order stream wait for the work on the memory; the producer's deleter runs only after
/// that. The order stream is the device's legacy default stream unless the caller named another. The host does not
/// wait. cudarc records only work on streams of the tensor's own context.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use cudarc::driver::CudaStream;
/// use dlbridge_cuda::{CudaTensor, Result, TensorExt};
///
/// fn first_row(tensor: dlbridge::Tensor, stream: &Arc<CudaStream>) -> Result<Vec<f32>> {
///     let memory: CudaTensor<f32> = tensor.into_cuda(stream)?;
///     let row = memory.shape()[1] as usize;
///     Ok(stream.clone_dtoh(&memory.view().slice(..row))?)
/// }
/// ```
///
/// A view cannot outlive it:
///
/// ```compile_fail,E0505
/// fn late(memory: dlbridge_cuda::CudaTensor<f32>) -> usize {
///     let view = memory.view();
///     drop(memory);
///     view.len()
/// }
/// ```
pub struct CudaTensor<T: Element> {
    slice: ManuallyDrop<CudaSlice<T>>,
    /// `None` once the stream waits for the work.
    order: Option<Order>,
    /// `None` once taken out.
    tensor: Option<Tensor>,
}

impl<T: Element> CudaTensor<T> {
    /// Wraps the bytes of a tensor as elements; the caller has compared the dtypes.
    pub(crate) fn new(
        tensor: Tensor,
        stream: &Arc<CudaStream>,
        order: &Arc<CudaStream>,
    ) -> Result<Self> {
        let context = stream.context();
        check_device(&tensor, stream)?;
        let order = Order::new(context, order)?;
        if !tensor.is_c_contiguous() {
            return Err(Error::Strided { strides: tensor.strides().to_vec() });
        }
        let (address, bytes) = bytes(&tensor);
        let required = align_of::<T>();
        if !address.is_multiple_of(required as u64) {
            let address = address as usize;
            return Err(dlbridge::Error::Misaligned { address, required }.into());
        }
        context.bind_to_thread()?;
        order::follow(stream, &order)?;
        // cudarc panics if it cannot create the events of the slice; this checks that it can create two now.
        let events = context.is_event_tracking();
        let events =
            events.then(|| Ok::<_, Error>((context.new_event(None)?, context.new_event(None)?)));
        drop(events.transpose()?);
        // SAFETY: Borrowed: the producer guarantees that the memory has `bytes` bytes until the tensor is dropped, all
        // bytes are valid elements, and `ManuallyDrop` with `leak` frees nothing.
        let slice = unsafe { stream.upgrade_device_ptr(address, bytes / size_of::<T>()) };
        let slice = ManuallyDrop::new(slice);
        let mut memory = Self { slice, order: Some(order), tensor: Some(tensor) };
        // Makes cudarc record that `stream` waits for the order stream, so that other streams wait for it.
        drop(memory.slice.device_ptr_mut(stream).1);
        context.check_err()?;
        Ok(memory)
    }

    fn tensor(&self) -> &Tensor {
        self.tensor.as_ref().expect("only `into_tensor` takes it out, and consumes `self`")
    }

    /// Returns the elements for reading.
    ///
    /// ```no_run
    /// fn len(memory: &dlbridge_cuda::CudaTensor<f32>) -> usize {
    ///     memory.view().len()
    /// }
    /// ```
    pub fn view(&self) -> CudaView<'_, T> {
        self.slice.as_view()
    }

    /// Returns the elements for reading and writing.
    ///
    /// Shared device memory may be written: no Rust reference points to it, and stream order separates the uses.
    /// Managed memory must be [exclusive](dlbridge::Access::Exclusive), because a library may have exported it to code
    /// on the CPU.
    ///
    /// # Errors
    /// [`dlbridge::Error::ReadOnly`]; [`dlbridge::Error::Shared`].
    ///
    /// ```no_run
    /// use cudarc::driver::CudaViewMut;
    /// use dlbridge_cuda::{CudaTensor, Result};
    ///
    /// fn target(memory: &mut CudaTensor<f32>) -> Result<CudaViewMut<'_, f32>> {
    ///     memory.view_mut()
    /// }
    /// ```
    pub fn view_mut(&mut self) -> Result<CudaViewMut<'_, T>> {
        let managed = self.tensor().device().device_type() == DeviceType::CUDA_MANAGED;
        match self.tensor().access() {
            Access::ReadOnly | Access::Immutable => Err(dlbridge::Error::ReadOnly.into()),
            Access::Shared if managed => Err(dlbridge::Error::Shared.into()),
            Access::Shared | Access::Exclusive => Ok(self.slice.as_view_mut()),
        }
    }

    /// Returns the extents of the tensor, in elements.
    ///
    /// ```no_run
    /// fn rows(memory: &dlbridge_cuda::CudaTensor<f32>) -> i64 {
    ///     memory.shape()[0]
    /// }
    /// ```
    pub fn shape(&self) -> &[i64] {
        self.tensor().shape()
    }

    /// Returns the stream that waited for the producer's work.
    ///
    /// ```no_run
    /// fn ordinal(memory: &dlbridge_cuda::CudaTensor<f32>) -> usize {
    ///     memory.stream().context().ordinal()
    /// }
    /// ```
    pub fn stream(&self) -> &Arc<CudaStream> {
        self.slice.stream()
    }

    /// Returns the tensor, whose order stream waits for the work on the memory. If neither that stream nor the host can
    /// be made to wait, the tensor is [read-only](dlbridge::Access::ReadOnly) and its memory is never freed.
    ///
    /// ```no_run
    /// fn pass_on(memory: dlbridge_cuda::CudaTensor<f32>) -> dlbridge::Tensor {
    ///     memory.into_tensor()
    /// }
    /// ```
    pub fn into_tensor(mut self) -> Tensor {
        let ordered = self.finish();
        let tensor = self.tensor.take().expect("only `into_tensor` and `drop` take it out");
        match ordered {
            Ok(()) => tensor,
            Err(_) => {
                let tensor = tensor.into_shared();
                let kept = tensor.share();
                mem::forget(tensor);
                kept
            }
        }
    }

    /// Makes the order stream, or else the host, wait for the work on the memory. Only the first call has an effect.
    ///
    /// # Errors
    /// Neither could be made to wait. The context also stores the error.
    fn finish(&mut self) -> std::result::Result<(), DriverError> {
        let Some(order) = self.order.take() else { return Ok(()) };
        order::in_drop(Arc::clone(self.slice.context()), |context| {
            let ordered = order::hand_over(&mut self.slice, &order);
            // SAFETY: the slice is not used again: `order` is now `None`, so this line is never reached twice, and the
            // value is being dropped, or is in `into_tensor`, which drops it.
            let slice = unsafe { ManuallyDrop::take(&mut self.slice) };
            // Borrowed: this drops the events and keeps the memory.
            slice.leak();
            drop(order);
            ordered.or_else(|_| order::wait(context))
        })
    }
}

impl<T: Element> Drop for CudaTensor<T> {
    fn drop(&mut self) {
        if self.finish().is_err() {
            // Work on the memory may still be pending: the deleter must not run.
            mem::forget(self.tensor.take());
        }
        // The compiler drops the tensor after this.
    }
}

impl<T: Element> fmt::Debug for CudaTensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaTensor").field("tensor", &self.tensor).finish_non_exhaustive()
    }
}

/// Refuses a tensor that is not on CUDA.
pub(crate) fn check_cuda(tensor: &Tensor) -> Result<()> {
    let device = tensor.device();
    match [DeviceType::CUDA, DeviceType::CUDA_MANAGED].contains(&device.device_type()) {
        true => Ok(()),
        false => Err(Error::NotCuda { device }),
    }
}

/// Refuses a tensor that is not on the device of the stream.
pub(crate) fn check_device(tensor: &Tensor, stream: &CudaStream) -> Result<()> {
    check_cuda(tensor)?;
    let (device, ordinal) = (tensor.device(), stream.context().ordinal());
    match usize::try_from(device.id()) == Ok(ordinal) {
        true => Ok(()),
        false => Err(Error::OtherDevice { device, ordinal }),
    }
}

/// Returns the address of the lowest byte of the elements, and the number of bytes to the highest.
pub(crate) fn bytes(tensor: &Tensor) -> (u64, usize) {
    let bounds = TensorRef::from(tensor).byte_bounds();
    (tensor.data().wrapping_byte_offset(bounds.start).addr() as u64, bounds.len())
}
