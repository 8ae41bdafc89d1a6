//! Pinned memory between memory of the CPU and that of a device: two buffers in turn, so that the CPU fills or
//! empties one while the device copies the other.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::slice;

use dlbridge_fork::ForkMutex;

use super::driver::{Driver, MemoryFunctions, Result};
use super::event::{Capture, Event};
use super::release::AfterStream;
use super::stream::Stream;

const CHUNK: usize = 4 << 20;

/// Pinned memory that no copy uses, kept for the next one.
static BUFFERS: ForkMutex<Vec<Buffer>> = ForkMutex::new(Vec::new());

/// Pinned memory, of the process for as long as that lives.
struct Buffer {
    memory: *mut u8,
    /// When the device has done with it.
    done: Option<Event>,
}

// SAFETY: the memory is the buffer's alone, and lives as long as the process.
unsafe impl Send for Buffer {}

impl Buffer {
    fn new(driver: &Driver, functions: MemoryFunctions) -> Result<Self> {
        const PORTABLE: u32 = 1;
        let mut memory = ptr::null_mut::<c_void>();
        // SAFETY: a place for the address.
        let status = unsafe { (functions.host_alloc)(&mut memory, CHUNK, PORTABLE) };
        driver.check(&format!("give {CHUNK} bytes of pinned memory"), status)?;
        Ok(Self { memory: memory.cast(), done: None })
    }

    /// The first bytes, when the device has done with them.
    fn bytes(&mut self, count: usize) -> Result<&mut [u8]> {
        if let Some(done) = &self.done {
            done.wait()?;
            self.done = None;
        }
        // SAFETY: so many bytes of the buffer's own, which the driver has written or nobody; the device has done
        // with them.
        Ok(unsafe { slice::from_raw_parts_mut(self.memory, count.min(CHUNK)) })
    }

    fn address(&self) -> u64 {
        self.memory.expose_provenance() as u64
    }
}

/// Two buffers for a copy. They can be had by others again when this is dropped.
struct Taken(Vec<Buffer>);

impl Taken {
    /// At most two that were made for other copies, which have ended.
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

/// Copies on a stream that is not captured.
pub(super) struct Transfer {
    pub(super) functions: MemoryFunctions,
    pub(super) stream: Stream,
}

impl Transfer {
    /// Copies on a stream from now on; an error while a graph is captured on it.
    pub(super) fn on(stream: Stream) -> Result<Self> {
        let functions = *stream.driver().memory()?;
        Capture::of(stream)?.expect_none(stream, "which cannot have this copy")?;
        Ok(Self { functions, stream })
    }

    /// Copies from the device, and returns when all is there.
    ///
    /// # Safety
    /// As many bytes at the address, valid until this returns, and after an error until the stream has passed.
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
                // SAFETY: the chunk is within the bytes that the caller guarantees. `bytes` found the device done with the
                // buffer, which is used next when `done` has passed.
                unsafe { self.copy(buffer.address(), from + chunk.start as u64, chunk.len()) }?;
                buffer.done = Some(Event::on(self.stream)?);
                under_way[turn % 2] = Some(chunk);
            }
            Ok(())
        };
        // SAFETY: `copy` uses the buffers on the transfer's stream.
        unsafe { self.with_buffers(copy) }
    }

    /// Copies to the device. The bytes have been read when this returns, and work that is in order with the stream sees them.
    ///
    /// # Safety
    /// As many bytes at the address, valid until the stream has passed.
    pub(super) unsafe fn send(&self, from: &[u8], to: u64) -> Result<()> {
        let copy = |buffers: &mut [Buffer]| {
            for (turn, chunk) in chunks(from.len()).enumerate() {
                let buffer = &mut buffers[turn % 2];
                buffer.bytes(chunk.len())?.copy_from_slice(&from[chunk.clone()]);
                // SAFETY: the chunk is within the bytes that the caller guarantees. The buffer was just filled, and is used next
                // when `done` has passed.
                unsafe { self.copy(to + chunk.start as u64, buffer.address(), chunk.len()) }?;
                buffer.done = Some(Event::on(self.stream)?);
            }
            Ok(())
        };
        // SAFETY: `copy` uses the buffers on the transfer's stream.
        unsafe { self.with_buffers(copy) }
    }

    /// Puts a copy on the stream.
    ///
    /// # Safety
    /// As many bytes at both addresses, valid until the stream has passed.
    pub(super) unsafe fn copy(&self, to: u64, from: u64, count: usize) -> Result<()> {
        let driver = self.stream.driver();
        let _entered = driver.enter(self.stream.device())?;
        // SAFETY: Live. The caller guarantees the bytes at both addresses.
        let status = unsafe { (self.functions.copy_async)(to, from, count, self.stream.handle()) };
        driver.check("copy", status)
    }

    /// Puts a copy from another device on the stream.
    ///
    /// # Safety
    /// As many bytes at both addresses, valid until the stream has passed.
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
        // SAFETY: Live, and contexts that are held. The caller guarantees the bytes at both addresses.
        let status = unsafe { copy(to, to_context, from, from_context, count, stream) };
        driver.check("copy between devices", status)
    }

    /// Drops something when the stream has passed what is on it now. That is recorded before this returns, because the stream is
    /// not captured; the stream is not used after that.
    pub(super) fn after_stream(&self, what: Box<dyn Send>) {
        drop(AfterStream::new(what, self.stream));
    }

    /// Works with two buffers. Other threads copy meanwhile, with buffers of their own.
    ///
    /// # Safety
    /// The device reads and writes the buffers in work on the transfer's stream alone.
    unsafe fn with_buffers(&self, work: impl FnOnce(&mut [Buffer]) -> Result<()>) -> Result<()> {
        let mut taken = self.taken()?;
        let done = work(&mut taken.0);
        if done.is_err() {
            // What was put on the stream before still uses them.
            self.after_stream(Box::new(taken));
        }
        done
    }

    /// Two buffers that no copy uses, or new ones.
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

/// The pieces of so many bytes.
fn chunks(count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(CHUNK).map(move |start| start..count.min(start + CHUNK))
}
