//! Where the deleters of tensors run that wgpu is done with.
//!
//! wgpu says so within a call, with locks held that the next call wants. A deleter is another library's, and may make that
//! call: to wait, or to drop what it has of wgpu. So it runs on a thread that holds nothing.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use dlbridge::Tensor;

use crate::{Error, Result};

/// What the thread is given.
enum Work {
    Drop(Tensor),
    /// Whoever has the other end is told when all before this is done.
    Tell(Sender<()>),
}

/// The way to the thread, which waits for ever: this end stays open.
struct Deleters {
    work: Sender<Work>,
    thread: ThreadId,
}

static DELETERS: Mutex<Option<Deleters>> = Mutex::new(None);

fn deleters() -> MutexGuard<'static, Option<Deleters>> {
    DELETERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What drops a tensor on the thread, which is started for the first of them.
pub(crate) fn later(tensor: Tensor) -> Result<impl FnOnce() + Send + Sync> {
    let mut deleters = deleters();
    let work = match &*deleters {
        Some(running) => running.work.clone(),
        None => {
            let (work, given) = mpsc::channel();
            let thread = thread::Builder::new().name("dlbridge-wgpu".to_owned());
            let thread = thread.spawn(|| run(given)).map_err(Error::Thread)?.thread().id();
            deleters.insert(Deleters { work, thread }).work.clone()
        }
    };
    // The other end is never closed.
    Ok(move || drop(work.send(Work::Drop(tensor))))
}

fn run(given: Receiver<Work>) {
    for work in given {
        match work {
            Work::Drop(tensor) => drop(tensor),
            // Who has gone does not want to know.
            Work::Tell(waiting) => drop(waiting.send(())),
        }
    }
}

/// Waits until the deleters have run that are due: of the tensors that
/// [`VulkanExt::into_webgpu`](crate::VulkanExt::into_webgpu) took, and that wgpu is done with. It finds that out within calls, so
/// [`Device::poll`](wgpu::Device::poll) comes first.
///
/// A program calls this before it ends, or it ends in the middle of one. Within a deleter it does not wait, since that would
/// be for itself.
///
/// ```
/// use dlbridge_wgpu::wait_for_deleters;
///
/// // The last handles of wgpu are gone.
/// wait_for_deleters();
/// ```
pub fn wait_for_deleters() {
    let (sender, receiver) = mpsc::channel();
    match &*deleters() {
        Some(running) if running.thread != thread::current().id() => {
            drop(running.work.send(Work::Tell(sender)));
        }
        _ => return,
    }
    // An error would say that the thread is gone, and so all that it had.
    let _ = receiver.recv();
}
