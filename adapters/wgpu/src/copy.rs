//! Copies between the host and a buffer. wgpu's asynchronous error reports become errors of the call that caused them.

use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;

use dlbridge::{DataType, RawParts, Tensor, TensorRef, device_copy};
use wgpu::{
    BufferDescriptor, BufferUsages, COPY_BUFFER_ALIGNMENT, Device, ErrorFilter, PollError,
    PollType, Queue, SubmissionIndex,
};

use crate::held::Memory;
use crate::{Error, Result, buffer, held};

/// Copies a host tensor into a new buffer, in C order, with the usages [`TENSOR_USAGES`](crate::TENSOR_USAGES). The
/// buffer's size is a multiple of 4, and bytes after the elements are zero. The copy precedes all later submissions on
/// the device.
///
/// # Errors
/// An error for a tensor that the CPU cannot read; [`Error::Lost`]; errors of wgpu, for example for a size above its
/// limits.
///
/// ```no_run
/// use dlbridge_wgpu::{Result, to_device};
///
/// fn ramp(device: &wgpu::Device) -> Result<dlbridge::Tensor> {
///     to_device(&[0.0_f32, 1.0, 2.0], device)
/// }
/// ```
pub fn to_device<'a>(source: impl Into<TensorRef<'a>>, device: &Device) -> Result<Tensor> {
    device_copy::in_c_order(source.into(), |source| {
        let shape = device_copy::extents(&source);
        let bytes = source.as_bytes()?;
        let descriptor = BufferDescriptor {
            label: None,
            // An empty buffer cannot be mapped.
            size: (bytes.len().max(1) as u64).next_multiple_of(COPY_BUFFER_ALIGNMENT),
            usage: buffer::TENSOR_USAGES,
            mapped_at_creation: true,
        };
        let target = checked(device, || {
            let target = device.create_buffer(&descriptor);
            let mapped = target.get_mapped_range_mut(..);
            // A valid buffer is fully mapped, so this one is invalid if mapping fails. wgpu reports every cause except a
            // lost device, and `checked` returns its report instead of this error.
            let mut mapped = mapped.map_err(|_| Error::Lost)?;
            mapped.slice(..bytes.len()).copy_from_slice(bytes);
            drop(mapped);
            target.unmap();
            Ok(target)
        })?;
        let parts = RawParts {
            subbyte_padded: source.is_subbyte_padded(),
            ..buffer::parts(source.dtype())
        };
        buffer::over(Memory::new(target, Some(device)), parts, &shape)
    })
}

/// Copies a tensor on `webgpu` to the host.
pub(crate) fn to_host(tensor: &Tensor, device: &Device, queue: &Queue) -> Result<Tensor> {
    if tensor.is_empty() {
        return device_copy::to_host(tensor, |_| Ok(()));
    }
    let memory = buffer::find(tensor)?;
    memory.check_device(device)?;
    held::check_queue(device, queue)?;
    let memory = memory.buffer;
    let bytes = buffer::bytes(tensor, memory.size())?;
    let start = bytes.start - bytes.start % COPY_BUFFER_ALIGNMENT;
    // This stays within the buffer, whose size is a multiple of 4.
    let size = (bytes.end - start).next_multiple_of(COPY_BUFFER_ALIGNMENT);
    let fetched = checked(device, || fetch(&memory, start, size, device, queue))?;
    Ok(device_copy::of_fetched(fetched, (bytes.start - start) as usize, tensor)?)
}

/// Copies `size` bytes of a buffer to the host, through a buffer that can be mapped.
fn fetch(
    memory: &wgpu::Buffer,
    start: u64,
    size: u64,
    device: &Device,
    queue: &Queue,
) -> Result<Tensor> {
    let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
    let descriptor = BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
    let between = device.create_buffer(&descriptor);
    let mut encoder = device.create_command_encoder(&Default::default());
    encoder.copy_buffer_to_buffer(memory, start, &between, 0, size);
    let submission = queue.submit([encoder.finish()]);
    read(device, &between, submission, |mapped| {
        let mut bytes = Tensor::zeroed(DataType::UINT8, [mapped.len()])?;
        let mut target = bytes.view_mut::<u8>()?;
        target.as_mut_slice().expect("new memory is contiguous").copy_from_slice(mapped);
        Ok(bytes)
    })
}

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
