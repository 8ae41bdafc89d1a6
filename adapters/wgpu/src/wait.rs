//! Turns wgpu's asynchronous error reports into errors of the call that caused them.

use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;

use wgpu::{Device, ErrorFilter, PollError, PollType, SubmissionIndex};

use crate::{Error, Result};

/// Runs some work, and returns the errors that wgpu reports to the device. Otherwise wgpu's own handler would panic.
pub(crate) fn checked<T>(device: &Device, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let filters = [ErrorFilter::Internal, ErrorFilter::OutOfMemory, ErrorFilter::Validation];
    let scopes = filters.map(|filter| device.push_error_scope(filter));
    let result = work();
    // Scopes close in reverse order.
    let reported = scopes.into_iter().rev().filter_map(|scope| ready(scope.pop())).last();
    match reported {
        Some(error) => Err(Error::Wgpu(error)),
        None => result,
    }
}

/// Returns the output of a future that is ready at once on all native backends.
fn ready<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::yield_now(),
        }
    }
}

/// Waits until the device has finished a submission, and all earlier ones. If the submission was not accepted and wgpu
/// reported no error, the device is lost: wgpu reports every other cause.
fn finish(device: &Device, submission: SubmissionIndex) -> Result<()> {
    let wait = PollType::Wait { submission_index: Some(submission), timeout: None };
    match device.poll(wait) {
        Ok(_) => Ok(()),
        Err(PollError::WrongSubmissionIndex(..)) => Err(Error::Lost),
        Err(error) => Err(Error::Wait(error.into())),
    }
}

/// Maps a whole buffer for reading, and passes the bytes on. No later submission may use the buffer.
pub(crate) fn read<T>(
    device: &Device,
    buffer: &wgpu::Buffer,
    submission: SubmissionIndex,
    read: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<T> {
    // First, because mapping a buffer of a lost device also fails, with an error that hides the cause.
    finish(device, submission.clone())?;
    let (sender, receiver) = mpsc::channel();
    // The receiver no longer exists if the wait failed.
    buffer.map_async(wgpu::MapMode::Read, .., move |mapped| drop(sender.send(mapped)));
    finish(device, submission)?;
    let mapped = receiver.recv().map_err(|error| Error::Wait(error.into()))?;
    mapped.map_err(|error| Error::Wait(error.into()))?;
    let bytes = buffer.get_mapped_range(..).map_err(|error| Error::Wait(error.into()))?;
    read(&bytes)
}
