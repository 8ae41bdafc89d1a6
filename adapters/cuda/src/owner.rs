//! Memory of cudarc that a tensor owns, and how it goes away.

use std::mem;
use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, DevicePtrMut, DeviceSlice, DriverError, PinnedHostSlice,
    UnifiedSlice, ValidAsZeroBits,
};
use dlbridge::Element;

use crate::order::{self, Order};

type Outcome<T = ()> = std::result::Result<T, DriverError>;

/// Memory that cudarc allocated. It stays where it is until the value is dropped, which frees it, and is the
/// value's alone.
pub trait Memory: Send + 'static {
    type Element: Element;

    fn elements(&self) -> usize;

    fn context(&self) -> &Arc<CudaContext>;

    /// Makes `order`, or the host where it can reach the memory, wait for all that is under way with it. The
    /// address of the first element.
    fn hand_over(&mut self, order: &CudaStream) -> Outcome<*mut Self::Element>;

    /// Makes whatever is to come with the memory wait for `order`.
    fn take_back(&mut self, order: &CudaStream) -> Outcome;

    /// Makes the end of the memory wait for `order`, which has waited for all that was before.
    fn free_after(&mut self, order: &CudaStream) -> Outcome;
}

impl<T: Element> Memory for CudaSlice<T> {
    type Element = T;

    fn elements(&self) -> usize {
        self.len()
    }

    fn context(&self) -> &Arc<CudaContext> {
        self.context()
    }

    fn hand_over(&mut self, order: &CudaStream) -> Outcome<*mut T> {
        order::hand_over(self, order)?;
        Ok(address(self.device_ptr_mut(order).0))
    }

    fn take_back(&mut self, order: &CudaStream) -> Outcome {
        order::noted(self, order)?;
        order::follow(self.stream(), order)
    }

    fn free_after(&mut self, order: &CudaStream) -> Outcome {
        order::follow(self.stream(), order)
    }
}

impl<T: Element> Memory for UnifiedSlice<T> {
    type Element = T;

    fn elements(&self) -> usize {
        self.len()
    }

    fn context(&self) -> &Arc<CudaContext> {
        self.stream().context()
    }

    fn hand_over(&mut self, order: &CudaStream) -> Outcome<*mut T> {
        order::follow(order, self.stream())?;
        order::follow(order, &self.stream().context().default_stream())?;
        // Refuses a stream that must not use it, too.
        order::noted(self, order)?;
        Ok(address(self.device_ptr_mut(order).0))
    }

    /// The host waits for what is noted before it reads the memory.
    fn take_back(&mut self, order: &CudaStream) -> Outcome {
        match order.context().is_event_tracking() {
            true => order::noted(self, order),
            false => order.synchronize(),
        }
    }

    /// cudarc's own wait does nothing, and the memory goes, while an error waits in the context.
    fn free_after(&mut self, order: &CudaStream) -> Outcome {
        order::noted(self, order)?;
        order.synchronize()
    }
}

impl<T: Element + ValidAsZeroBits> Memory for PinnedHostSlice<T> {
    type Element = T;

    fn elements(&self) -> usize {
        self.len()
    }

    fn context(&self) -> &Arc<CudaContext> {
        self.context()
    }

    fn hand_over(&mut self, _: &CudaStream) -> Outcome<*mut T> {
        let context = self.context();
        // cudarc notes no copy while it takes the default stream for the only one.
        match context.is_managing_stream_synchronization() {
            true => context.default_stream().synchronize()?,
            false => context.synchronize()?,
        }
        self.as_mut_ptr()
    }

    /// A copy from the tensor's elements, which are a plain slice to cudarc, is noted nowhere and may be under way
    /// on any stream.
    fn take_back(&mut self, _: &CudaStream) -> Outcome {
        order::wait(self.context())
    }

    fn free_after(&mut self, order: &CudaStream) -> Outcome {
        self.take_back(order)
    }
}

/// An address of the device as a pointer, which the CPU must not follow unless the memory is managed.
pub(crate) fn address<T>(first: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(first as usize)
}

/// The owner of an exported tensor.
pub(crate) struct Exported<M: Memory> {
    /// The memory, and the stream in whose order the tensor is; `None` once they were taken out.
    parts: Option<(M, Order)>,
}

impl<M: Memory> Exported<M> {
    pub(crate) fn new(memory: M, order: Order) -> Self {
        Self { parts: Some((memory, order)) }
    }

    fn parts(&mut self) -> (&mut M, &Order) {
        let parts = self.parts.as_mut().expect("taken out by `into_memory` and `drop` alone");
        (&mut parts.0, &parts.1)
    }

    pub(crate) fn memory(&mut self) -> &mut M {
        self.parts().0
    }

    /// As [`Memory::hand_over`].
    pub(crate) fn hand_over(&mut self) -> Outcome<*mut M::Element> {
        let (memory, order) = self.parts();
        memory.hand_over(order)
    }

    /// Makes whatever is to come with the memory wait for what was done, or the host.
    ///
    /// # Errors
    /// Neither waits: the memory must not be used yet.
    pub(crate) fn take_back(&mut self) -> Outcome {
        let (memory, order) = self.parts();
        order::in_drop(Arc::clone(memory.context()), |context| {
            memory.take_back(order).or_else(|_| order::wait(context))
        })
    }

    /// The memory itself, which was [taken back](Self::take_back).
    pub(crate) fn into_memory(mut self) -> M {
        let (memory, order) = self.parts.take().expect("taken out here and in `drop` alone");
        let _ended = order::in_drop(Arc::clone(memory.context()), |_| {
            drop(order);
            Ok(())
        });
        memory
    }
}

impl<M: Memory> Drop for Exported<M> {
    fn drop(&mut self) {
        let Some((mut memory, order)) = self.parts.take() else { return };
        // An error waits in the context then.
        let _told = order::in_drop(Arc::clone(memory.context()), |context| {
            let ordered = memory.free_after(&order);
            // What the memory's stream cannot be made to wait for, the host waits for.
            let ordered = ordered.or_else(|_| order::wait(context));
            match ordered {
                Ok(()) => drop((memory, order)),
                // What is under way with it may still be.
                Err(_) => mem::forget((memory, order)),
            }
            ordered
        });
    }
}
