//! Memory of cudarc as borrowed tensors, during a call.

use std::sync::Arc;

use cudarc::driver::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, SyncOnDrop,
};
use dlbridge::{Access, Element, RawParts, TensorRef, TensorRefMut};

use crate::order::{self, Order};
use crate::sealed::Sealed;
use crate::slice::{check_len, locate};
use crate::{Result, owner};

/// [`CudaSlice`], [`CudaView`] and [`CudaViewMut`] as borrowed tensors for reading during a call, for example by a C
/// kernel that takes a `DLTensor*`.
pub trait BorrowExt<T: Element>: DevicePtr<T> + Sealed {
    /// Calls `kernel` with the elements as a tensor in C order. The kernel works on the legacy default stream, which
    /// waits for pending writes to the elements. Later work on the memory waits for the work that the call queued on
    /// that stream.
    ///
    /// # Errors
    /// An error unless the shape has as many elements as the memory; [`Error::NotPrimary`](crate::Error::NotPrimary);
    /// errors of the driver.
    ///
    /// ```no_run
    /// use cudarc::driver::CudaView;
    /// use dlbridge::sys::DLTensor;
    /// use dlbridge_cuda::{BorrowExt, Result};
    ///
    /// fn rows(view: &CudaView<'_, f32>, kernel: fn(*const DLTensor)) -> Result<()> {
    ///     view.with_tensor_ref([2, 3], |tensor| kernel(&raw const *tensor.dl_tensor()))
    /// }
    /// ```
    ///
    /// The tensor does not outlive the call:
    ///
    /// ```compile_fail
    /// use cudarc::driver::CudaSlice;
    /// use dlbridge_cuda::BorrowExt;
    ///
    /// fn keep(slice: &CudaSlice<f32>) -> dlbridge::TensorRef<'_> {
    ///     slice.with_tensor_ref([2, 3], |tensor| tensor).unwrap()
    /// }
    /// ```
    fn with_tensor_ref<R>(
        &self,
        shape: impl AsRef<[usize]>,
        kernel: impl FnOnce(TensorRef<'_>) -> R,
    ) -> Result<R> {
        self.with_tensor_ref_on(shape, &self.stream().context().default_stream(), kernel)
    }

    /// Like [`with_tensor_ref`](Self::with_tensor_ref), for a kernel that works on another stream.
    ///
    /// # Errors
    /// The errors of [`with_tensor_ref`](Self::with_tensor_ref), [`Error::OtherContext`](crate::Error::OtherContext), and
    /// [`Error::PerThread`](crate::Error::PerThread).
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use cudarc::driver::{CudaSlice, CudaStream};
    /// use dlbridge_cuda::{BorrowExt, Result};
    ///
    /// fn ndim(slice: &CudaSlice<f32>, stream: &Arc<CudaStream>) -> Result<usize> {
    ///     slice.with_tensor_ref_on([2, 3], stream, |tensor| tensor.ndim())
    /// }
    /// ```
    fn with_tensor_ref_on<R>(
        &self,
        shape: impl AsRef<[usize]>,
        order: &Arc<CudaStream>,
        kernel: impl FnOnce(TensorRef<'_>) -> R,
    ) -> Result<R> {
        let (shape, stream) = (shape.as_ref(), Arc::clone(self.stream()));
        check_len(shape, self.len())?;
        let order = &Order::new(stream.context(), order)?;
        stream.context().bind_to_thread()?;
        order::follow(order, &stream)?;
        let attentive = order::attentive(stream.context())?;
        let (first, note) = self.device_ptr(order);
        drop(attentive);
        let _borrow = Borrowed { note: Some(note), stream: &stream, order };
        let parts = parts::<T>(first, self.len(), order, Access::ReadOnly)?;
        // SAFETY: the memory has `self.len()` elements, which `check_len` compared with the shape, and `self` is
        // borrowed during the call.
        Ok(kernel(unsafe { TensorRef::from_raw_parts(&parts, shape, None::<&[i64]>) }?))
    }
}

/// [`CudaSlice`] and [`CudaViewMut`] as borrowed tensors for writing during a call.
pub trait BorrowMutExt<T: Element>: DevicePtrMut<T> + Sealed {
    /// Calls `kernel` with the elements as a tensor in C order. The kernel works on the legacy default stream, which
    /// waits for pending reads and writes of the elements. Later work on the memory waits for the work that the call
    /// queued on that stream. Types whose bits need a check, such as `bool`, are refused at compile time.
    ///
    /// # Errors
    /// The errors of [`BorrowExt::with_tensor_ref`].
    ///
    /// ```compile_fail,E0080
    /// use dlbridge_cuda::BorrowMutExt;
    ///
    /// fn main() {
    ///     let flags: Option<cudarc::driver::CudaSlice<bool>> = None;
    ///     if let Some(mut flags) = flags {
    ///         flags.with_tensor_ref_mut([1], |_| ()).unwrap();
    ///     }
    /// }
    /// ```
    /// ```no_run
    /// use cudarc::driver::CudaViewMut;
    /// use dlbridge::sys::DLTensor;
    /// use dlbridge_cuda::{BorrowMutExt, Result};
    ///
    /// fn fill(view: &mut CudaViewMut<'_, f32>, kernel: fn(*mut DLTensor)) -> Result<()> {
    ///     view.with_tensor_ref_mut([6], |mut tensor| kernel(&raw mut *tensor.dl_tensor()))
    /// }
    /// ```
    fn with_tensor_ref_mut<R>(
        &mut self,
        shape: impl AsRef<[usize]>,
        kernel: impl FnOnce(TensorRefMut<'_>) -> R,
    ) -> Result<R> {
        let order = self.stream().context().default_stream();
        self.with_tensor_ref_mut_on(shape, &order, kernel)
    }

    /// Like [`with_tensor_ref_mut`](Self::with_tensor_ref_mut), for a kernel that works on another stream.
    ///
    /// # Errors
    /// The errors of [`BorrowExt::with_tensor_ref_on`].
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use cudarc::driver::{CudaSlice, CudaStream};
    /// use dlbridge_cuda::{BorrowMutExt, Result};
    ///
    /// fn len(slice: &mut CudaSlice<f32>, stream: &Arc<CudaStream>) -> Result<usize> {
    ///     slice.with_tensor_ref_mut_on([6], stream, |tensor| tensor.as_tensor_ref().len())
    /// }
    /// ```
    fn with_tensor_ref_mut_on<R>(
        &mut self,
        shape: impl AsRef<[usize]>,
        order: &Arc<CudaStream>,
        kernel: impl FnOnce(TensorRefMut<'_>) -> R,
    ) -> Result<R> {
        const { assert!(T::CHECK.is_none(), "the kernel may write invalid elements") }
        let (shape, stream, len) = (shape.as_ref(), Arc::clone(self.stream()), self.len());
        check_len(shape, len)?;
        let order = &Order::new(stream.context(), order)?;
        stream.context().bind_to_thread()?;
        order::follow(order, &stream)?;
        let attentive = order::attentive(stream.context())?;
        let (first, note) = self.device_ptr_mut(order);
        drop(attentive);
        let _borrow = Borrowed { note: Some(note), stream: &stream, order };
        let parts = parts::<T>(first, len, order, Access::Exclusive)?;
        // SAFETY: the memory has `len` elements, which `check_len` compared with the shape; C order addresses each
        // once; and `self` is borrowed mutably during the call.
        Ok(kernel(unsafe { TensorRefMut::from_raw_parts(&parts, shape, None::<&[i64]>) }?))
    }
}

impl<T: Element> Sealed for CudaSlice<T> {}
impl<T: Element> Sealed for CudaView<'_, T> {}
impl<T: Element> Sealed for CudaViewMut<'_, T> {}

impl<T: Element> BorrowExt<T> for CudaSlice<T> {}
impl<T: Element> BorrowExt<T> for CudaView<'_, T> {}
impl<T: Element> BorrowExt<T> for CudaViewMut<'_, T> {}
impl<T: Element> BorrowMutExt<T> for CudaSlice<T> {}
impl<T: Element> BorrowMutExt<T> for CudaViewMut<'_, T> {}

fn parts<T: Element>(
    first: u64,
    len: usize,
    order: &CudaStream,
    access: Access,
) -> Result<RawParts> {
    order.context().check_err()?;
    let device = locate(first, len, order.context().ordinal())?;
    Ok(RawParts { device, ..RawParts::of_elements(owner::address::<T>(first), access) })
}

/// Ends the call in its destructor, also after a panic.
struct Borrowed<'a> {
    note: Option<SyncOnDrop<'a>>,
    stream: &'a CudaStream,
    order: &'a CudaStream,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        // The context stores an error for the next call.
        let _told = order::in_drop(Arc::clone(self.stream.context()), |context| {
            // Dropping the record makes cudarc note that the order stream used the memory.
            let noted = order::attentive(self.stream.context()).and_then(|attentive| {
                self.note = None;
                drop(attentive);
                context.check_err()
            });
            // If cudarc could not record the use, the host waits.
            self.note = None;
            let ordered = noted.and_then(|()| order::follow(self.stream, self.order));
            ordered.or_else(|_| order::wait(context))
        });
    }
}
