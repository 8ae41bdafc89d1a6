//! Pinned memory between the memory of the CPU and that of a device. Two buffers take turns, so that the CPU fills or
//! empties one while the device copies the other.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::slice;

use dlbridge::fork::ForkMutex;

use super::driver::{Driver, MemoryFunctions, Result};
use super::event::{Capture, Event};
use super::release::AfterStream;
use super::stream::Stream;

const CHUNK: usize = 4 << 20;

/// Pinned memory that no copy uses, kept for the next copy.
static BUFFERS: ForkMutex<Vec<Buffer>> = ForkMutex::new(Vec::new());

/// Pinned memory, which is never freed.
struct Buffer {
    memory: *mut u8,
    /// The device's last use of the memory.
    done: Option<Event>,
}

// SAFETY: only the buffer has the memory, which lives as long as the process.
unsafe impl Send for Buffer {}

impl Buffer {
    fn new(driver: &Driver, functions: MemoryFunctions) -> Result<Self> {
        const PORTABLE: u32 = 1;
        let mut memory = ptr::null_mut::<c_void>();
        // SAFETY: `memory` is writable.
        let status = unsafe { (functions.host_alloc)(&mut memory, CHUNK, PORTABLE) };
        driver.check(&format!("give {CHUNK} bytes of pinned memory"), status)?;
        Ok(Self { memory: memory.cast(), done: None })
    }

    /// Waits for the device's last use, and returns the first bytes.
    fn bytes(&mut self, count: usize) -> Result<&mut [u8]> {
        if let Some(done) = &self.done {
            done.wait()?;
            self.done = None;
        }
        // SAFETY: the buffer alone has these bytes, which only the driver and these slices write; the device's last use
        // is done.
        Ok(unsafe { slice::from_raw_parts_mut(self.memory, count.min(CHUNK)) })
    }

    fn address(&self) -> u64 {
        self.memory.expose_provenance() as u64
    }
}

/// Two buffers for a copy. Other copies can use them when this is dropped.
struct Taken(Vec<Buffer>);

impl Taken {
    /// Takes at most two buffers of earlier copies.
    fn of_others() -> Self {
        let mut unused = BUFFERS.lock();
        let rest = unused.len().saturating_sub(2);
        Self(unused.drain(rest..).collect())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        BUFFERS.lock().append(&mut self.0);
    }
}

/// A stream that is not captured, to copy on.
pub(super) struct Transfer {
    pub(super) functions: MemoryFunctions,
    pub(super) stream: Stream,
}

impl Transfer {
    /// Prepares copies on a stream. Returns an error while a graph is captured on it.
    pub(super) fn on(stream: Stream) -> Result<Self> {
        let functions = *stream.driver().memory()?;
        Capture::of(stream)?.expect_none(stream, "which cannot have this copy")?;
        Ok(Self { functions, stream })
    }

    /// Copies from the device, and returns when the copy is complete.
    ///
    /// # Safety
    /// `from` has as many bytes as `to`, valid until this returns, and after an error until the stream's pending work
    /// is done.
    pub(super) unsafe fn fetch(&self, from: u64, to: &mut [u8]) -> Result<()> {
        let copy = |buffers: &mut [Buffer]| {
            let mut under_way: [Option<Range<usize>>; 2] = [None, None];
            let chunks = chunks(to.len()).map(Some).chain([None, None]);
            for (turn, chunk) in chunks.enumerate() {
                let (buffer, before) = (&mut buffers[turn % 2], under_way[turn % 2].take());
                if let Some(before) = before {
                    to[before.clone()].copy_from_slice(buffer.bytes(before.len())?);
                }
                let Some(chunk) = chunk else { continue };
                buffer.bytes(0)?;
                // SAFETY: the chunk is within the bytes that the caller guarantees. `bytes` waited for the device's
                // last use of the buffer, and the next use waits for `done`.
                unsafe { self.copy(buffer.address(), from + chunk.start as u64, chunk.len()) }?;
                buffer.done = Some(Event::on(self.stream)?);
                under_way[turn % 2] = Some(chunk);
            }
            Ok(())
        };
        // SAFETY: the device uses the buffers only in the copies that `copy` queues on the transfer's stream.
        unsafe { self.with_buffers(copy) }
    }

    /// Copies to the device. When this returns, all bytes have been read, and later work on the stream sees them.
    ///
    /// # Safety
    /// `to` has as many bytes as `from`, valid until the stream's pending work is done.
    pub(super) unsafe fn send(&self, from: &[u8], to: u64) -> Result<()> {
        let copy = |buffers: &mut [Buffer]| {
            for (turn, chunk) in chunks(from.len()).enumerate() {
                let buffer = &mut buffers[turn % 2];
                buffer.bytes(chunk.len())?.copy_from_slice(&from[chunk.clone()]);
                // SAFETY: the chunk is within the bytes that the caller guarantees. The buffer was just filled, and its
                // next use waits for `done`.
                unsafe { self.copy(to + chunk.start as u64, buffer.address(), chunk.len()) }?;
                buffer.done = Some(Event::on(self.stream)?);
            }
            Ok(())
        };
        // SAFETY: the device uses the buffers only in the copies that `copy` queues on the transfer's stream.
        unsafe { self.with_buffers(copy) }
    }

    /// Queues a copy on the stream.
    ///
    /// # Safety
    /// Both addresses have `count` bytes, valid until the stream's pending work is done.
    pub(super) unsafe fn copy(&self, to: u64, from: u64, count: usize) -> Result<()> {
        let driver = self.stream.driver();
        let _entered = driver.enter(self.stream.device())?;
        // SAFETY: the stream is live (Live). The caller guarantees the bytes at both addresses.
        let status = unsafe { (self.functions.copy_async)(to, from, count, self.stream.handle()) };
        driver.check("copy", status)
    }

    /// Queues a copy from another device on the stream.
    ///
    /// # Safety
    /// Both addresses have `count` bytes, valid until the stream's pending work is done.
    pub(super) unsafe fn copy_from_device(
        &self,
        to: u64,
        (device, from): (i32, u64),
        count: usize,
    ) -> Result<()> {
        let (driver, stream) = (self.stream.driver(), self.stream.handle());
        let (to_context, from_context) =
            (driver.context(self.stream.device())?, driver.context(device)?);
        let _entered = driver.enter(self.stream.device())?;
        let copy = self.functions.copy_peer_async;
        // SAFETY: the stream is live (Live), and the contexts are retained. The caller guarantees the bytes at both
        // addresses.
        let status = unsafe { copy(to, to_context, from, from_context, count, stream) };
        driver.check("copy between devices", status)
    }

    /// Drops a value when the stream's pending work is done. This records the work before it returns, because the
    /// stream is not captured, and does not use the stream later.
    pub(super) fn after_stream(&self, what: Box<dyn Send>) {
        drop(AfterStream::new(what, self.stream));
    }

    /// Calls `work` with two buffers. Other threads can copy at the same time, with buffers of their own.
    ///
    /// # Safety
    /// The device reads and writes the buffers only in work on the transfer's stream.
    unsafe fn with_buffers(&self, work: impl FnOnce(&mut [Buffer]) -> Result<()>) -> Result<()> {
        let mut taken = self.taken()?;
        let done = work(&mut taken.0);
        if done.is_err() {
            // Copies that are already on the stream still use them.
            self.after_stream(Box::new(taken));
        }
        done
    }

    /// Returns two buffers that no copy uses, new ones if needed.
    fn taken(&self) -> Result<Taken> {
        let mut taken = Taken::of_others();
        if taken.0.len() < 2 {
            let driver = self.stream.driver();
            let _entered = driver.enter(self.stream.device())?;
            while taken.0.len() < 2 {
                taken.0.push(Buffer::new(driver, self.functions)?);
            }
        }
        Ok(taken)
    }
}

/// Splits `count` bytes into chunks.
fn chunks(count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(CHUNK).map(move |start| start..count.min(start + CHUNK))
}
