//! Memory that is released when the pending work of a stream is done.

use std::cell::RefCell;
use std::mem;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use dlbridge::fork::ForkMutex;
use dlbridge::{RawParts, Tensor};

use super::driver::{Driver, Failure, Result, StreamHandle};
use super::event::{Capture, Event};
use super::stream::Stream;

/// A value to drop after the work that its stream has pending when this is dropped.
pub(super) struct AfterStream {
    what: Option<Box<dyn Send>>,
    stream: Stream,
}

impl AfterStream {
    /// Holds a value, without a call of the driver. Call this before queuing work on the stream.
    ///
    /// The stream is used until `what` is dropped. If the stream is captured, that is later than the drop of this.
    pub(super) fn new(what: Box<dyn Send>, stream: Stream) -> Self {
        Self { what: Some(what), stream: stream.of_any_thread() }
    }
}

impl Drop for AfterStream {
    fn drop(&mut self) {
        let Some(what) = self.what.take() else { return };
        let mut waiting = Waiting { stream: self.stream, event: None };
        match waiting.has_passed() {
            Ok(true) => drop_one_by_one(what),
            Ok(false) => drop_later(waiting, what),
            Err(failure) => give_up(&failure, what),
        }
    }
}

/// A stream whose pending work a value waits for.
struct Waiting {
    stream: Stream,
    /// The recorded work. `None` while the stream is captured, because nothing can be recorded then. Captured work runs
    /// later, if ever, and the code that captures it keeps the tensor as long as the graph.
    event: Option<Event>,
}

impl Waiting {
    fn has_passed(&mut self) -> Result<bool> {
        match self.look() {
            // Another thread has begun a capture in the meantime.
            Err(failure) if failure.is_about_a_capture() => {
                self.event = None;
                Ok(false)
            }
            answer => answer,
        }
    }

    fn look(&mut self) -> Result<bool> {
        if self.event.is_none() {
            if Capture::of(self.stream)? != Capture::None {
                return Ok(false);
            }
            self.event = Some(Event::on(self.stream)?);
        }
        self.event.as_ref().map_or(Ok(false), Event::has_passed)
    }
}

/// Leaks a value that pending work may still use. Drops it if the driver has ended, and all work with it.
fn give_up(failure: &Failure, what: Box<dyn Send>) {
    match failure.is_the_end() {
        true => drop_one_by_one(what),
        false => mem::forget(what),
    }
}

/// Drops a chain of values that hold each other, without recursion.
fn drop_one_by_one(what: Box<dyn Send>) {
    thread_local! {
        static HELD: RefCell<Option<Vec<Box<dyn Send>>>> = const { RefCell::new(None) };
    }
    let is_outermost = HELD.with_borrow_mut(|held| match held {
        Some(held) => {
            held.push(what);
            false
        }
        None => {
            *held = Some(vec![what]);
            true
        }
    });
    if is_outermost {
        while let Some(next) = HELD.with_borrow_mut(|held| held.as_mut().and_then(Vec::pop)) {
            drop(next);
        }
        HELD.set(None);
    }
}

type Pending = (Waiting, Box<dyn Send>);

/// The thread that drops pending values. A child lacks this thread, and starts its own.
static RELEASER: ForkMutex<Option<Sender<Pending>>> = ForkMutex::with_child(None, |mut sender| {
    // The receiving thread does not exist in the child. It may have held a lock of the channel.
    mem::forget(sender.take());
});

/// Drops a value on a thread, which polls all pending values.
fn drop_later(waiting: Waiting, what: Box<dyn Send>) {
    let mut sender = RELEASER.lock();
    if sender.is_none() {
        let (new, incoming) = channel();
        let thread = thread::Builder::new().name("dlbridge release".to_owned());
        *sender = thread.spawn(move || give_back(&incoming)).is_ok().then_some(new);
    }
    let unsent = match &*sender {
        Some(thread) => thread.send((waiting, what)).err().map(|unsent| unsent.0),
        // The thread did not start.
        None => Some((waiting, what)),
    };
    drop(sender);
    if let Some((_, what)) = unsent {
        mem::forget(what);
    }
}

fn give_back(incoming: &Receiver<Pending>) {
    const PAUSE: Duration = Duration::from_micros(500);
    let mut pending: Vec<Pending> = Vec::new();
    loop {
        if pending.is_empty() {
            match incoming.recv() {
                Ok(next) => pending.push(next),
                Err(_) => return,
            }
        }
        match incoming.recv_timeout(PAUSE) {
            Ok(next) => pending.push(next),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        pending.extend(incoming.try_iter());
        // Check all, so that no value waits for another.
        for (mut waiting, what) in mem::take(&mut pending) {
            match waiting.has_passed() {
                Ok(true) => drop_one_by_one(what),
                Ok(false) => pending.push((waiting, what)),
                Err(failure) => give_up(&failure, what),
            }
        }
    }
}

/// Returns the same tensor, which returns its memory to the producer later: after the work that `stream` has pending
/// when the tensor is dropped.
///
/// # Errors
/// Returns an error if the driver is missing or refuses; then the tensor is dropped.
///
/// # Safety
/// `stream` is a live stream, or the handle of a default one of the tensor's device. It lives until the memory is
/// returned.
///
/// ```
/// use dlbridge::Tensor;
/// use dlbridge_gpu::after_stream;
///
/// fn released_late(tensor: Tensor) -> Result<Tensor, dlbridge_gpu::Failure> {
///     // SAFETY: the handle of the default stream.
///     unsafe { after_stream(tensor, 0) }
/// }
/// # let _ = released_late;
/// ```
pub unsafe fn after_stream(tensor: Tensor, stream: StreamHandle) -> Result<Tensor> {
    let driver = Driver::of(tensor.device().device_type())?;
    let parts = RawParts {
        device: tensor.device(),
        byte_offset: tensor.byte_offset(),
        access: tensor.access(),
        subbyte_padded: tensor.is_subbyte_padded(),
        ..RawParts::new(tensor.data(), tensor.dtype())
    };
    let (shape, strides) = (tensor.shape().to_vec(), tensor.strides().to_vec());
    // SAFETY: the caller guarantees that the stream lives until the memory is returned; the value is not used longer.
    let stream = unsafe { Stream::of(driver, tensor.device().id(), stream) }?;
    let owner = AfterStream::new(Box::new(tensor), stream);
    // SAFETY: the parts describe the tensor that the owner holds.
    unsafe { Tensor::from_raw_parts(owner, parts, &shape, Some(&strides)) }.map_err(Failure::core)
}
