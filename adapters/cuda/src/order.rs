//! Synchronises streams with each other, without blocking the host.
//!
//! - **Default.** A tensor does not name a stream. A CUDA tensor is synchronised with the *order* stream: the legacy
//!   default stream of its device, or another stream that producer and consumer agreed on.
//! - **One object.** Each `CudaContext` counts its own streams and stores its own errors, even if several of them share
//!   one context. cudarc uses the memory's object to decide whether to read its records, and the stream's object to
//!   decide whether to make one. So this module wraps an order stream as a stream of the memory's own object.

use std::ops::Deref;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtrMut, DriverError, result};

use crate::{Error, Result};

type Outcome = std::result::Result<(), DriverError>;

/// Makes future work on `later` wait for the work that is on `earlier` now.
pub(crate) fn follow(later: &CudaStream, earlier: &CudaStream) -> Outcome {
    // On another thread this handle means another stream, but the legacy default stream waits for all of them.
    let all = is_per_thread(earlier).then(|| earlier.context().default_stream());
    let earlier = all.as_deref().unwrap_or(earlier);
    match later == earlier {
        true => Ok(()),
        false => later.join(earlier),
    }
}

fn is_per_thread(stream: &CudaStream) -> bool {
    // `CU_STREAM_PER_THREAD`.
    stream.cu_stream().addr() == 2
}

/// The host waits for all pending work of a context. This works even while the context stores an error, which makes
/// cudarc's own functions return at once. That error is dropped: it may come from the call that this wait replaces.
pub(crate) fn wait(context: &CudaContext) -> Outcome {
    let _instead = context.check_err();
    // SAFETY: the object retains its context.
    unsafe { result::ctx::set_current(context.cu_ctx()) }?;
    result::ctx::synchronize()
}

/// An order stream, wrapped as a stream of the memory's own `CudaContext`.
pub(crate) struct Order {
    stream: Arc<CudaStream>,
    /// The original stream, if it belongs to another object.
    _origin: Option<Arc<CudaStream>>,
}

impl Order {
    /// The legacy default stream.
    pub(crate) fn legacy(context: &Arc<CudaContext>) -> Self {
        Self { stream: context.default_stream(), _origin: None }
    }

    /// Refuses per-thread streams, streams of another context, and contexts that other libraries do not use.
    pub(crate) fn new(context: &Arc<CudaContext>, order: &Arc<CudaStream>) -> Result<Self> {
        if is_per_thread(order) {
            return Err(Error::PerThread);
        }
        if !context.is_primary() {
            return Err(Error::NotPrimary);
        }
        if context != order.context() {
            return Err(Error::OtherContext);
        }
        if Arc::ptr_eq(context, order.context()) {
            return Ok(Self { stream: Arc::clone(order), _origin: None });
        }
        // SAFETY: both objects share one context, and `_origin` keeps the original stream alive for as long.
        let stream = unsafe { context.wrap_borrowed_stream(order.cu_stream()) };
        Ok(Self { stream, _origin: Some(Arc::clone(order)) })
    }
}

impl Deref for Order {
    type Target = CudaStream;

    fn deref(&self) -> &CudaStream {
        &self.stream
    }
}

/// Makes `order` wait for pending work on a slice: on its own stream, and on any other stream whose use cudarc has
/// recorded.
pub(crate) fn hand_over<T>(slice: &mut CudaSlice<T>, order: &CudaStream) -> Outcome {
    follow(order, slice.stream())?;
    noted(slice, order)
}

/// Makes `order` wait for the recorded uses of the memory, and records a use by `order`.
pub(crate) fn noted<T>(memory: &mut impl DevicePtrMut<T>, order: &CudaStream) -> Outcome {
    let context = memory.stream().context().clone();
    let _stream = attentive(&context)?;
    drop(memory.device_ptr_mut(order).1);
    context.check_err()
}

/// Returns a stream that makes cudarc read and make records while it lives. While a context has only the default
/// stream, cudarc does neither, although a recorded stream may still have pending work after it was dropped. Another
/// thread's first stream, created meanwhile, would not wait for the default one; the same is true of every `fork`.
pub(crate) fn attentive(
    context: &Arc<CudaContext>,
) -> std::result::Result<Option<Arc<CudaStream>>, DriverError> {
    let forgets = context.is_event_tracking() && !context.is_in_multi_stream_mode();
    forgets.then(|| context.default_stream().fork()).transpose()
}

/// Runs the work of a drop in a context, on any thread, and returns its result. An error that the context already
/// stores does not stop the work. That error, or one of the work, is stored for the next call, as in cudarc's own
/// drops. Afterwards the thread has its previous current context, even if `context` was the last reference to its own.
pub(crate) fn in_drop(
    context: Arc<CudaContext>,
    work: impl FnOnce(&CudaContext) -> Outcome,
) -> Outcome {
    let (current, own) = (result::ctx::get_current(), context.cu_ctx());
    let waiting = context.check_err();
    context.record_err(context.bind_to_thread());
    let done = work(&context);
    context.record_err(done);
    context.record_err(waiting);
    drop(context);
    match current {
        Ok(current) if current != Some(own) => {
            // SAFETY: it was current before, and the code that made it current keeps it; NULL means no context.
            let restored = unsafe { result::ctx::set_current(current.unwrap_or(ptr::null_mut())) };
            // A drop cannot return this error, and each cudarc call makes its own context current.
            let _ = restored;
        }
        _ => {}
    }
    done
}
