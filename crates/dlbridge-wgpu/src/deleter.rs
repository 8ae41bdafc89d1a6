//! Where the deleters of tensors run that wgpu is done with.
//!
//! wgpu says so within a call, with locks held that the next call wants. A deleter is another library's, and may make that
//! call: to wait, or to drop what it has of wgpu. So it runs on a thread that holds nothing.

use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use dlbridge::Tensor;

use crate::{Error, Result};

/// What leads to the thread, which waits for ever: this end stays open.
static QUEUE: Mutex<Option<Sender<Tensor>>> = Mutex::new(None);

/// Where to put tensors that are to be dropped, in this order. The thread is started for the first.
pub(crate) fn queue() -> Result<Sender<Tensor>> {
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sender) = &*queue {
        return Ok(sender.clone());
    }
    let (sender, receiver) = mpsc::channel::<Tensor>();
    let name = "dlbridge-wgpu".to_owned();
    let thread =
        thread::Builder::new().name(name).spawn(move || receiver.into_iter().for_each(drop));
    thread.map_err(Error::Thread)?;
    Ok(queue.insert(sender).clone())
}
