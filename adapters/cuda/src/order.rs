//! The order of streams: who waits for whom, without a wait of the host.
//!
//! - **Default.** A tensor has no stream. One that is on CUDA is in the order of the legacy default stream of its
//!   device, or of another stream that two parties agreed on: the *order* stream.
//! - **One object.** Each `CudaContext` counts its own streams and has its own errors, also where several are of one
//!   context. cudarc asks the memory's whether to look at its notes, and the stream's whether to make one. So an
//!   order stream is taken as one of the memory's own.

use std::ops::Deref;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtrMut, DriverError, result};

use crate::{Error, Result};

type Outcome = std::result::Result<(), DriverError>;

/// Makes what comes on `later` wait for what is on `earlier` now.
pub(crate) fn follow(later: &CudaStream, earlier: &CudaStream) -> Outcome {
    // On another thread this handle is another stream, but the legacy default stream waits for all of them.
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

/// The host waits for all that is under way in a context: also while an error waits there, with which cudarc's own
/// functions return at once. That error is dropped: it may be of what this is done instead of.
pub(crate) fn wait(context: &CudaContext) -> Outcome {
    let _instead = context.check_err();
    // SAFETY: the object retains its context.
    unsafe { result::ctx::set_current(context.cu_ctx()) }?;
    result::ctx::synchronize()
}

/// An order stream, as one of the memory's own `CudaContext`.
pub(crate) struct Order {
    stream: Arc<CudaStream>,
    /// The stream itself, if it is of another object.
    _origin: Option<Arc<CudaStream>>,
}

impl Order {
    /// The legacy default stream.
    pub(crate) fn legacy(context: &Arc<CudaContext>) -> Self {
        Self { stream: context.default_stream(), _origin: None }
    }

    /// Refuses a stream of another context or of each thread's own, and contexts that other libraries do not use.
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
        // SAFETY: both objects are of one context, and the stream itself is kept as long.
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

/// Makes `order` wait for all that is under way with a slice: on its stream, and on any other where cudarc has
/// noted a use of it.
pub(crate) fn hand_over<T>(slice: &mut CudaSlice<T>, order: &CudaStream) -> Outcome {
    follow(order, slice.stream())?;
    noted(slice, order)
}

/// Makes `order` wait for the uses of memory that cudarc has noted, and notes one of `order`.
pub(crate) fn noted<T>(memory: &mut impl DevicePtrMut<T>, order: &CudaStream) -> Outcome {
    let context = memory.stream().context().clone();
    let _stream = attentive(&context)?;
    drop(memory.device_ptr_mut(order).1);
    context.check_err()
}

/// While a context has no stream but the default one cudarc neither looks at its notes nor makes any, and the stream
/// that was noted last may still be at work when it is gone itself. So there is one as long as this is kept, in
/// which another thread's first stream would not wait for the default one: as with any `fork`.
pub(crate) fn attentive(
    context: &Arc<CudaContext>,
) -> std::result::Result<Option<Arc<CudaStream>>, DriverError> {
    let forgets = context.is_event_tracking() && !context.is_in_multi_stream_mode();
    forgets.then(|| context.default_stream().fork()).transpose()
}

/// Does in a context what a drop has to do, on whatever thread. An error that waits there already does not stop it;
/// that one, or one of its own, waits for the next call then, as with cudarc's own drops. The thread has the
/// context afterwards that it had before, also if this one goes with its last holder. What the work says.
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
            // SAFETY: it was current, and whoever made it so keeps it; NULL is none.
            let restored = unsafe { result::ctx::set_current(current.unwrap_or(ptr::null_mut())) };
            // There is nobody left to tell, and each call of cudarc's makes its own context current.
            let _ = restored;
        }
        _ => {}
    }
    done
}
