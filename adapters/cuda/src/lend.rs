//! Memory of cudarc as borrowed tensors, for the length of a call.

use std::sync::Arc;

use cudarc::driver::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, SyncOnDrop,
};
use dlbridge::{Access, Element, RawParts, TensorRef, TensorRefMut};

use crate::order::{self, Order};
use crate::sealed::Sealed;
use crate::slice::{check_len, locate};
use crate::{Result, owner};

/// [`CudaSlice`], [`CudaView`] and [`CudaViewMut`] as borrowed tensors, which are read for the length of a call: by a C
/// kernel that takes a `DLTensor*`.
pub trait LendExt<T: Element>: DevicePtr<T> + Sealed {
    /// Calls `kernel` with the elements as a tensor in C order, on the legacy default stream, which waits for what
    /// writes them. What comes later waits for what the call has put on that stream.
    ///
    /// # Errors
    /// An error unless the shape has as many elements as the memory; [`Error::NotPrimary`](crate::Error::NotPrimary);
    /// what the driver says.
    ///
    /// ```no_run
    /// use cudarc::driver::CudaView;
    /// use dlbridge::sys::DLTensor;
    /// use dlbridge_cuda::{LendExt, Result};
    ///
    /// fn rows(view: &CudaView<'_, f32>, kernel: fn(*const DLTensor)) -> Result<()> {
    ///     view.lend([2, 3], |tensor| kernel(&raw const *tensor.dl_tensor()))
    /// }
    /// ```
    ///
    /// The tensor does not outlive the call:
    ///
    /// ```compile_fail
    /// use cudarc::driver::CudaSlice;
    /// use dlbridge_cuda::LendExt;
    ///
    /// fn keep(slice: &CudaSlice<f32>) -> dlbridge::TensorRef<'_> {
    ///     slice.lend([2, 3], |tensor| tensor).unwrap()
    /// }
    /// ```
    fn lend<R>(
        &self,
        shape: impl AsRef<[usize]>,
        kernel: impl FnOnce(TensorRef<'_>) -> R,
    ) -> Result<R> {
        self.lend_on(shape, &self.stream().context().default_stream(), kernel)
    }

    /// As [`lend`](Self::lend), on another stream, which the call works on.
    ///
    /// # Errors
    /// As [`lend`](Self::lend), [`Error::OtherContext`](crate::Error::OtherContext), and
    /// [`Error::PerThread`](crate::Error::PerThread).
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use cudarc::driver::{CudaSlice, CudaStream};
    /// use dlbridge_cuda::{LendExt, Result};
    ///
    /// fn ndim(slice: &CudaSlice<f32>, stream: &Arc<CudaStream>) -> Result<usize> {
    ///     slice.lend_on([2, 3], stream, |tensor| tensor.ndim())
    /// }
    /// ```
    fn lend_on<R>(
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
        let _lent = Lent { note: Some(note), stream: &stream, order };
        let parts = parts::<T>(first, self.len(), order, Access::ReadOnly)?;
        // SAFETY: the memory has so many elements, and is borrowed as long as the call takes.
        Ok(kernel(unsafe { TensorRef::from_raw_parts(&parts, shape, None::<&[i64]>) }?))
    }
}

/// [`CudaSlice`] and [`CudaViewMut`] as borrowed tensors, which are written for the length of a call.
pub trait LendMutExt<T: Element>: DevicePtrMut<T> + Sealed {
    /// Calls `kernel` with the elements as a tensor in C order, on the legacy default stream, which waits for what
    /// reads or writes them. What comes later waits for what the call has put on that stream. Types whose bits
    /// need a check, like `bool`, are refused at compile time.
    ///
    /// # Errors
    /// As [`LendExt::lend`].
    ///
    /// ```compile_fail,E0080
    /// use dlbridge_cuda::LendMutExt;
    ///
    /// fn main() {
    ///     let flags: Option<cudarc::driver::CudaSlice<bool>> = None;
    ///     if let Some(mut flags) = flags {
    ///         flags.lend_mut([1], |_| ()).unwrap();
    ///     }
    /// }
    /// ```
    /// ```no_run
    /// use cudarc::driver::CudaViewMut;
    /// use dlbridge::sys::DLTensor;
    /// use dlbridge_cuda::{LendMutExt, Result};
    ///
    /// fn fill(view: &mut CudaViewMut<'_, f32>, kernel: fn(*mut DLTensor)) -> Result<()> {
    ///     view.lend_mut([6], |mut tensor| kernel(&raw mut *tensor.dl_tensor()))
    /// }
    /// ```
    fn lend_mut<R>(
        &mut self,
        shape: impl AsRef<[usize]>,
        kernel: impl FnOnce(TensorRefMut<'_>) -> R,
    ) -> Result<R> {
        let order = self.stream().context().default_stream();
        self.lend_mut_on(shape, &order, kernel)
    }

    /// As [`lend_mut`](Self::lend_mut), on another stream, which the call works on.
    ///
    /// # Errors
    /// As [`LendExt::lend_on`].
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use cudarc::driver::{CudaSlice, CudaStream};
    /// use dlbridge_cuda::{LendMutExt, Result};
    ///
    /// fn len(slice: &mut CudaSlice<f32>, stream: &Arc<CudaStream>) -> Result<usize> {
    ///     slice.lend_mut_on([6], stream, |tensor| tensor.as_tensor_ref().len())
    /// }
    /// ```
    fn lend_mut_on<R>(
        &mut self,
        shape: impl AsRef<[usize]>,
        order: &Arc<CudaStream>,
        kernel: impl FnOnce(TensorRefMut<'_>) -> R,
    ) -> Result<R> {
        const { assert!(T::CHECK.is_none(), "anything might be written to the elements") }
        let (shape, stream, len) = (shape.as_ref(), Arc::clone(self.stream()), self.len());
        check_len(shape, len)?;
        let order = &Order::new(stream.context(), order)?;
        stream.context().bind_to_thread()?;
        order::follow(order, &stream)?;
        let attentive = order::attentive(stream.context())?;
        let (first, note) = self.device_ptr_mut(order);
        drop(attentive);
        let _lent = Lent { note: Some(note), stream: &stream, order };
        let parts = parts::<T>(first, len, order, Access::Exclusive)?;
        // SAFETY: the memory has so many elements, of which C order has each once, and is borrowed mutably as long
        // as the call takes.
        Ok(kernel(unsafe { TensorRefMut::from_raw_parts(&parts, shape, None::<&[i64]>) }?))
    }
}

impl<T: Element> Sealed for CudaSlice<T> {}
impl<T: Element> Sealed for CudaView<'_, T> {}
impl<T: Element> Sealed for CudaViewMut<'_, T> {}

impl<T: Element> LendExt<T> for CudaSlice<T> {}
impl<T: Element> LendExt<T> for CudaView<'_, T> {}
impl<T: Element> LendExt<T> for CudaViewMut<'_, T> {}
impl<T: Element> LendMutExt<T> for CudaSlice<T> {}
impl<T: Element> LendMutExt<T> for CudaViewMut<'_, T> {}

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

/// The end of a call, also of one that panics.
struct Lent<'a> {
    note: Option<SyncOnDrop<'a>>,
    stream: &'a CudaStream,
    order: &'a CudaStream,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // An error waits in the context then, which is the next call's.
        let _told = order::in_drop(Arc::clone(self.stream.context()), |context| {
            // cudarc notes the use of the memory by the order stream.
            let noted = order::attentive(self.stream.context()).and_then(|attentive| {
                self.note = None;
                drop(attentive);
                context.check_err()
            });
            // Where there is no note the host waits.
            self.note = None;
            let ordered = noted.and_then(|()| order::follow(self.stream, self.order));
            ordered.or_else(|_| order::wait(context))
        });
    }
}
