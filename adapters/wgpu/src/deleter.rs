//! Runs the deleters of tensors that wgpu no longer uses.
//!
//! wgpu reports this within a call, while it holds locks that other calls need. A deleter belongs to another library
//! and may call wgpu, to wait or to drop its own wgpu objects. So a thread that holds no locks runs it.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use dlbridge::Tensor;

use crate::{Error, Result};

/// Work for the thread.
enum Work {
    Drop(Tensor),
    /// Signals the waiting thread when all earlier work is done.
    Tell(Sender<()>),
}

/// The channel to the thread. It stays open, so the thread never ends.
struct Deleters {
    work: Sender<Work>,
    thread: ThreadId,
}

static DELETERS: Mutex<Option<Deleters>> = Mutex::new(None);

fn deleters() -> MutexGuard<'static, Option<Deleters>> {
    DELETERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a function that drops a tensor on the thread, and starts the thread on the first call.
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
    // The receiver is never dropped.
    Ok(move || drop(work.send(Work::Drop(tensor))))
}

fn run(given: Receiver<Work>) {
    for work in given {
        match work {
            // This does not panic: the core catches a panic of an owner's drop.
            Work::Drop(tensor) => drop(tensor),
            // The waiting thread may have gone.
            Work::Tell(waiting) => drop(waiting.send(())),
        }
    }
}

/// Waits for the due deleters: those of tensors that [`VulkanExt::into_webgpu`](crate::VulkanExt::into_webgpu) imported
/// and that wgpu no longer uses. wgpu notices that only within calls, so call [`Device::poll`](wgpu::Device::poll)
/// first.
///
/// Call this before the program ends, because the end may interrupt a deleter. Within a deleter it returns at once,
/// because it would wait for itself.
///
/// ```
/// use dlbridge_wgpu::wait_for_deleters;
///
/// // All wgpu handles have been dropped.
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
    // An error means that the thread has ended, and with it all its work.
    let _ = receiver.recv();
}
