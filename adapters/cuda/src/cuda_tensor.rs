//! A tensor in use as memory of cudarc.
//!
//! - **Lent.** The memory is the producer's. A `CudaSlice` over it would free it, so nobody gets one, nor a mutable
//!   reference to one, which could be swapped with one's own.

use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtrMut, DriverError};
use dlbridge::{Access, DeviceType, Element, Tensor, TensorRef};

use crate::order::{self, Order};
use crate::{Error, Result};

/// A tensor's memory for work with cudarc, by [`TensorExt::into_cuda`](crate::TensorExt::into_cuda).
///
/// When it is dropped, the stream in whose order the tensor is, the device's legacy default stream unless another was
/// named, is made to wait for what was done with the memory; only then the producer's deleter runs. The host
/// waits for nothing. cudarc knows of what was done on streams of the tensor's own context alone.
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
/// No view outlives it:
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
    /// `None` once it waits for what was done.
    order: Option<Order>,
    /// `None` once it was taken out.
    tensor: Option<Tensor>,
}

impl<T: Element> CudaTensor<T> {
    /// The bytes of a tensor as elements; the caller has compared the dtypes.
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
        // cudarc panics where it gets no events for the slice; there are two now.
        let events = context.is_event_tracking();
        let events =
            events.then(|| Ok::<_, Error>((context.new_event(None)?, context.new_event(None)?)));
        drop(events.transpose()?);
        // SAFETY: Lent: the producer promises so many bytes there until the tensor is dropped, of which any are
        // elements, and nothing is freed.
        let slice = unsafe { stream.upgrade_device_ptr(address, bytes / size_of::<T>()) };
        let slice = ManuallyDrop::new(slice);
        let mut memory = Self { slice, order: Some(order), tensor: Some(tensor) };
        // Other streams wait for what cudarc has noted: that this one waits for the order stream.
        drop(memory.slice.device_ptr_mut(stream).1);
        context.check_err()?;
        Ok(memory)
    }

    fn tensor(&self) -> &Tensor {
        self.tensor.as_ref().expect("taken out by `into_tensor` alone, which drops the rest")
    }

    /// The elements, for reading.
    ///
    /// ```no_run
    /// fn len(memory: &dlbridge_cuda::CudaTensor<f32>) -> usize {
    ///     memory.view().len()
    /// }
    /// ```
    pub fn view(&self) -> CudaView<'_, T> {
        self.slice.as_view()
    }

    /// The elements, for reading and writing.
    ///
    /// Memory of a device that others hold too may be written: no reference of Rust leads there, and the order of
    /// streams keeps uses apart. Managed memory must be [exclusive](dlbridge::Access::Exclusive), since a library
    /// may have lent it to code of the CPU.
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

    /// The extents of the tensor, in elements.
    ///
    /// ```no_run
    /// fn rows(memory: &dlbridge_cuda::CudaTensor<f32>) -> i64 {
    ///     memory.shape()[0]
    /// }
    /// ```
    pub fn shape(&self) -> &[i64] {
        self.tensor().shape()
    }

    /// The stream that waited for the producer's work.
    ///
    /// ```no_run
    /// fn ordinal(memory: &dlbridge_cuda::CudaTensor<f32>) -> usize {
    ///     memory.stream().context().ordinal()
    /// }
    /// ```
    pub fn stream(&self) -> &Arc<CudaStream> {
        self.slice.stream()
    }

    /// The tensor again, in the order it was in: after what was done with the memory. Where neither the stream nor
    /// the host can be made to wait for that, the tensor is
    /// [read-only](dlbridge::Access::ReadOnly), and its memory never freed.
    ///
    /// ```no_run
    /// fn pass_on(memory: dlbridge_cuda::CudaTensor<f32>) -> dlbridge::Tensor {
    ///     memory.into_tensor()
    /// }
    /// ```
    pub fn into_tensor(mut self) -> Tensor {
        let ordered = self.finish();
        let tensor = self.tensor.take().expect("it is taken out here and while dropped alone");
        match ordered {
            Ok(()) => tensor,
            Err(_) => {
                let tensor = Arc::new(tensor);
                let kept = tensor.share();
                mem::forget(tensor);
                kept
            }
        }
    }

    /// Makes the order stream wait for what was done with the memory, or the host. Once.
    ///
    /// # Errors
    /// Neither waits. The error waits in the context, too.
    fn finish(&mut self) -> std::result::Result<(), DriverError> {
        let Some(order) = self.order.take() else { return Ok(()) };
        order::in_drop(Arc::clone(self.slice.context()), |context| {
            let ordered = order::hand_over(&mut self.slice, &order);
            // SAFETY: it is not used again: there is no order any more, and so no way here, and it is in a value that
            // is dropped, or in `into_tensor`, which drops it.
            let slice = unsafe { ManuallyDrop::take(&mut self.slice) };
            // Lent: the events go, and the memory stays.
            slice.leak();
            drop(order);
            ordered.or_else(|_| order::wait(context))
        })
    }
}

impl<T: Element> Drop for CudaTensor<T> {
    fn drop(&mut self) {
        if self.finish().is_err() {
            // What is under way with the memory may still be: the deleter must not run.
            mem::forget(self.tensor.take());
        }
        // The tensor is dropped after this.
    }
}

impl<T: Element> fmt::Debug for CudaTensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaTensor").field("tensor", &self.tensor).finish_non_exhaustive()
    }
}

/// Refuses what is not on CUDA.
pub(crate) fn check_cuda(tensor: &Tensor) -> Result<()> {
    let device = tensor.device();
    match [DeviceType::CUDA, DeviceType::CUDA_MANAGED].contains(&device.device_type()) {
        true => Ok(()),
        false => Err(Error::NotCuda { device }),
    }
}

/// Refuses what is not on the device of a stream.
pub(crate) fn check_device(tensor: &Tensor, stream: &CudaStream) -> Result<()> {
    check_cuda(tensor)?;
    let (device, ordinal) = (tensor.device(), stream.context().ordinal());
    match usize::try_from(device.id()) == Ok(ordinal) {
        true => Ok(()),
        false => Err(Error::OtherDevice { device, ordinal }),
    }
}

/// The address of the lowest byte of the elements, and the number of bytes to the highest.
pub(crate) fn bytes(tensor: &Tensor) -> (u64, usize) {
    let bounds = TensorRef::from(tensor).byte_bounds();
    (tensor.data().wrapping_byte_offset(bounds.start).addr() as u64, bounds.len())
}
