//! Memory that is given back when a stream has passed.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use dlbridge::{RawParts, Tensor};

use super::driver::{Driver, Result, StreamHandle};
use super::event::{Event, capture};

/// What is dropped when a stream has passed what is on it then.
pub(super) struct AfterStream {
    what: Option<Box<dyn Send>>,
    driver: &'static Driver,
    device: i32,
    stream: StreamHandle,
}

impl AfterStream {
    /// # Safety
    /// A stream of the device, which lives as long as this does, or the handle of a default one.
    pub(super) unsafe fn new(
        what: Box<dyn Send>,
        driver: &'static Driver,
        device: i32,
        stream: StreamHandle,
    ) -> Self {
        Self { what: Some(what), driver, device, stream }
    }
}

impl Drop for AfterStream {
    fn drop(&mut self) {
        let Some(what) = self.what.take() else { return };
        // SAFETY: by the promise to `new`.
        let is_captured = unsafe { capture(self.driver, self.device, self.stream) };
        // What is captured runs later, if ever: who captures it keeps the tensor as long as the graph.
        if !matches!(is_captured, Ok(None)) {
            return;
        }
        // SAFETY: as above. A driver that fails has ended, and all streams with it.
        let event = unsafe { Event::on(self.driver, self.device, self.stream) };
        if let Ok(event) = event
            && matches!(event.has_passed(), Ok(false))
        {
            drop_after(event, what);
        }
    }
}

type Waiting = (Event, Box<dyn Send>);

/// Drops it on a thread that waits for the event.
fn drop_after(event: Event, what: Box<dyn Send>) {
    static THREAD: Mutex<Option<Sender<Waiting>>> = Mutex::new(None);
    let mut sender = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if sender.is_none() {
        let (new, waiting) = channel::<Waiting>();
        let thread = thread::Builder::new().name("dlbridge release".to_owned()).spawn(move || {
            for (event, what) in waiting {
                // A driver that fails has ended, and all streams with it.
                let _ = event.wait();
                drop(what);
            }
        });
        *sender = thread.is_ok().then_some(new);
    }
    let Some(thread) = &*sender else {
        // There is no thread to be had.
        let _ = event.wait();
        return;
    };
    if let Err(returned) = thread.send((event, what)) {
        let _ = returned.0.0.wait();
    }
}

/// The same tensor, whose memory is given back to its producer when a stream has passed what is on it when the
/// tensor is dropped.
///
/// # Safety
/// A stream of the tensor's device, which lives as long as the tensor, or the handle of a default one.
pub(crate) unsafe fn after_stream(tensor: Tensor, stream: StreamHandle) -> Result<Tensor> {
    let driver = Driver::of(tensor.device().device_type())?;
    let parts = RawParts {
        device: tensor.device(),
        byte_offset: tensor.byte_offset(),
        access: tensor.access(),
        subbyte_padded: tensor.is_subbyte_padded(),
        ..RawParts::new(tensor.data(), tensor.dtype())
    };
    let (shape, strides) = (tensor.shape().to_vec(), tensor.strides().to_vec());
    let device = tensor.device().id();
    // SAFETY: by contract.
    let owner = unsafe { AfterStream::new(Box::new(tensor), driver, device, stream) };
    let shape: Vec<usize> = shape.into_iter().map(|extent| extent as usize).collect();
    // SAFETY: the parts of a tensor that the owner holds.
    unsafe { Tensor::from_raw_parts(owner, parts, &shape, Some(&strides)) }
        .map_err(|error| super::Failure::new(error.to_string()))
}
