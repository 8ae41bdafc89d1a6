//! Memory of cudarc that a tensor owns, and how it is freed.

use std::mem;
use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, DevicePtrMut, DeviceSlice, DriverError, PinnedHostSlice,
    UnifiedSlice, ValidAsZeroBits,
};
use dlbridge::Element;

use crate::order::{self, Order};

type Outcome<T = ()> = std::result::Result<T, DriverError>;

/// Memory that cudarc allocated. It stays in place until the value is dropped, which frees it, and only the value
/// refers to it.
pub trait Memory: Send + 'static {
    type Element: Element;

    fn elements(&self) -> usize;

    fn context(&self) -> &Arc<CudaContext>;

    /// Makes `order`, or for pinned memory the host, wait for pending work on the memory. Returns the address of the
    /// first element.
    fn hand_over(&mut self, order: &CudaStream) -> Outcome<*mut Self::Element>;

    /// Makes future uses of the memory wait for `order`.
    fn take_back(&mut self, order: &CudaStream) -> Outcome;

    /// Makes the memory's release wait for `order`, which has already waited for earlier work.
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
        // Also refuses a stream that may not use the memory.
        order::noted(self, order)?;
        Ok(address(self.device_ptr_mut(order).0))
    }

    /// cudarc makes the host wait for the recorded uses before it reads the memory, so a record is enough. Without
    /// records, the host waits here.
    fn take_back(&mut self, order: &CudaStream) -> Outcome {
        match order.context().is_event_tracking() {
            true => order::noted(self, order),
            false => order.synchronize(),
        }
    }

    /// Waits explicitly: while the context stores an error, cudarc frees the memory without waiting.
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
        // While the default stream is the only stream, cudarc does not record copies.
        match context.is_managing_stream_synchronization() {
            true => context.default_stream().synchronize()?,
            false => context.synchronize()?,
        }
        self.as_mut_ptr()
    }

    /// cudarc sees the tensor's elements as a plain slice, so a copy from them is not recorded and may be pending on
    /// any stream.
    fn take_back(&mut self, _: &CudaStream) -> Outcome {
        order::wait(self.context())
    }

    fn free_after(&mut self, order: &CudaStream) -> Outcome {
        self.take_back(order)
    }
}

/// Converts a device address to a pointer, which the CPU must not dereference unless the memory is managed.
pub(crate) fn address<T>(first: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(first as usize)
}

/// The owner of an exported tensor.
pub(crate) struct Exported<M: Memory> {
    /// The memory and its order stream; `None` once taken out.
    parts: Option<(M, Order)>,
}

impl<M: Memory> Exported<M> {
    pub(crate) fn new(memory: M, order: Order) -> Self {
        Self { parts: Some((memory, order)) }
    }

    fn parts(&mut self) -> (&mut M, &Order) {
        let parts = self.parts.as_mut().expect("only `into_memory` and `drop` take them out");
        (&mut parts.0, &parts.1)
    }

    pub(crate) fn memory(&mut self) -> &mut M {
        self.parts().0
    }

    /// Calls [`Memory::hand_over`].
    pub(crate) fn hand_over(&mut self) -> Outcome<*mut M::Element> {
        let (memory, order) = self.parts();
        memory.hand_over(order)
    }

    /// Makes future uses of the memory, or else the host, wait for pending work.
    ///
    /// # Errors
    /// Neither could be made to wait: the memory must not be used yet.
    pub(crate) fn take_back(&mut self) -> Outcome {
        let (memory, order) = self.parts();
        order::in_drop(Arc::clone(memory.context()), |context| {
            memory.take_back(order).or_else(|_| order::wait(context))
        })
    }

    /// Returns the memory, after [`take_back`](Self::take_back).
    pub(crate) fn into_memory(mut self) -> M {
        let (memory, order) =
            self.parts.take().expect("only `into_memory` and `drop` take them out");
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
        // The context stores an error for the next call.
        let _told = order::in_drop(Arc::clone(memory.context()), |context| {
            let ordered = memory.free_after(&order);
            // If the memory's stream cannot be made to wait, the host waits.
            let ordered = ordered.or_else(|_| order::wait(context));
            match ordered {
                Ok(()) => drop((memory, order)),
                // Its work may still be pending, so the memory is leaked.
                Err(_) => mem::forget((memory, order)),
            }
            ordered
        });
    }
}
