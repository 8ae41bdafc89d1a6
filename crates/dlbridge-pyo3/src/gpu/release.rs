//! Memory that is given back when a stream has passed.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use dlbridge::{RawParts, Tensor};

use super::driver::{Driver, Result, StreamHandle};
use super::event::{Capture, Event};

/// CUDA's default stream of whichever thread drops, which need not be the one that it was named on. The legacy stream
/// waits for those of all.
const PER_THREAD: StreamHandle = 2;
const LEGACY: StreamHandle = 0;

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
        let stream = if stream == PER_THREAD { LEGACY } else { stream };
        Self { what: Some(what), driver, device, stream }
    }
}

impl Drop for AfterStream {
    fn drop(&mut self) {
        let Some(what) = self.what.take() else { return };
        // SAFETY: by the promise to `new`.
        if let Ok(event) = unsafe { Waiting::on(self.driver, self.device, self.stream) }
            && !event.has_passed()
        {
            drop_after(event, what);
        }
    }
}

/// What is waited for. A driver that fails has ended, and all streams with it: then there is nothing.
enum Waiting {
    /// What a stream had under way.
    Event(Event),
    /// The end of a capture, and then what the stream has under way: nothing can be recorded before. What was captured runs
    /// later, if ever, and who captures it keeps the tensor as long as the graph.
    Capture { driver: &'static Driver, device: i32, stream: StreamHandle },
}

impl Waiting {
    /// # Safety
    /// A stream of the device, which lives until it was waited for, or the handle of a default one.
    unsafe fn on(driver: &'static Driver, device: i32, stream: StreamHandle) -> Result<Self> {
        // SAFETY: by contract.
        unsafe {
            match Capture::of(driver, device, stream)? {
                Capture::None => Event::for_sleeping(driver, device, stream).map(Self::Event),
                _ => Ok(Self::Capture { driver, device, stream }),
            }
        }
    }

    fn has_passed(&self) -> bool {
        match self {
            Self::Event(event) => !matches!(event.has_passed(), Ok(false)),
            Self::Capture { .. } => false,
        }
    }

    fn wait(self) {
        let mut waiting = self;
        loop {
            waiting = match waiting {
                Self::Event(event) => {
                    let _ = event.wait();
                    return;
                }
                Self::Capture { driver, device, stream } => {
                    thread::sleep(Duration::from_millis(5));
                    // SAFETY: by the promise to `on`.
                    match unsafe { Self::on(driver, device, stream) } {
                        Ok(waiting) => waiting,
                        Err(_) => return,
                    }
                }
            }
        }
    }
}

type Pending = (Waiting, Box<dyn Send>);

/// Drops it on a thread that waits.
fn drop_after(waiting: Waiting, what: Box<dyn Send>) {
    static THREAD: Mutex<Option<Sender<Pending>>> = Mutex::new(None);
    let mut sender = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if sender.is_none() {
        let (new, waiting) = channel::<Pending>();
        let thread = thread::Builder::new().name("dlbridge release".to_owned()).spawn(move || {
            for (waiting, what) in waiting {
                waiting.wait();
                drop(what);
            }
        });
        *sender = thread.is_ok().then_some(new);
    }
    let unsent = match &*sender {
        Some(thread) => thread.send((waiting, what)).err().map(|unsent| unsent.0),
        // There is no thread to be had.
        None => Some((waiting, what)),
    };
    drop(sender);
    if let Some((waiting, what)) = unsent {
        waiting.wait();
        drop(what);
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
