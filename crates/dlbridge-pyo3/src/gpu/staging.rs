//! Pinned memory between memory of the CPU and that of a device: two buffers in turn, so that the CPU fills or
//! empties one while the device copies the other.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::slice;
use std::sync::{Mutex, PoisonError};

use super::driver::{Driver, MemoryFunctions, Result, StreamHandle};
use super::event::Event;

const CHUNK: usize = 4 << 20;

/// The buffers of the process that nobody uses, kept for the next copy. Who fails does not put his back, since nobody knows
/// what the device still does with them.
static BUFFERS: Mutex<Vec<[Buffer; 2]>> = Mutex::new(Vec::new());

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
        driver.check("give pinned memory", status)?;
        Ok(Self { memory: memory.cast(), done: None })
    }

    /// The first bytes, when the device has done with them.
    fn bytes(&mut self, count: usize) -> Result<&mut [u8]> {
        if let Some(done) = self.done.take() {
            done.wait()?;
        }
        // SAFETY: so many bytes of the buffer's own, which the driver has written or nobody; the device has done
        // with them.
        Ok(unsafe { slice::from_raw_parts_mut(self.memory, count.min(CHUNK)) })
    }

    fn address(&self) -> u64 {
        self.memory.expose_provenance() as u64
    }
}

/// Copies on a stream of a device.
pub(super) struct Transfer {
    pub(super) driver: &'static Driver,
    pub(super) functions: MemoryFunctions,
    pub(super) device: i32,
    pub(super) stream: StreamHandle,
}

impl Transfer {
    /// Copies from the device, and returns when all is there.
    ///
    /// # Safety
    /// A live stream that is not being captured; as many bytes at the address, valid until this returns.
    pub(super) unsafe fn fetch(&self, from: u64, to: &mut [u8]) -> Result<()> {
        self.with_buffers(|buffers| {
            let mut under_way: [Option<Range<usize>>; 2] = [None, None];
            let chunks = chunks(to.len()).map(Some).chain([None, None]);
            for (turn, chunk) in chunks.enumerate() {
                let (buffer, before) = (&mut buffers[turn % 2], under_way[turn % 2].take());
                if let Some(before) = before {
                    to[before.clone()].copy_from_slice(buffer.bytes(before.len())?);
                }
                let Some(chunk) = chunk else { continue };
                buffer.bytes(0)?;
                // SAFETY: by contract, and a buffer that is free.
                unsafe {
                    self.copy(buffer.address(), from + chunk.start as u64, chunk.len())?;
                    buffer.done = Some(Event::on(self.driver, self.device, self.stream)?);
                }
                under_way[turn % 2] = Some(chunk);
            }
            Ok(())
        })
    }

    /// Copies to the device. The bytes have been taken when this returns, and are there for who is in order with
    /// the stream.
    ///
    /// # Safety
    /// A live stream that is not being captured; as many bytes at the address, valid until the stream has passed.
    pub(super) unsafe fn send(&self, from: &[u8], to: u64) -> Result<()> {
        self.with_buffers(|buffers| {
            for (turn, chunk) in chunks(from.len()).enumerate() {
                let buffer = &mut buffers[turn % 2];
                buffer.bytes(chunk.len())?.copy_from_slice(&from[chunk.clone()]);
                // SAFETY: by contract, and a buffer that is filled.
                unsafe {
                    self.copy(to + chunk.start as u64, buffer.address(), chunk.len())?;
                    buffer.done = Some(Event::on(self.driver, self.device, self.stream)?);
                }
            }
            Ok(())
        })
    }

    /// Puts a copy on the stream.
    ///
    /// # Safety
    /// A live stream; as many bytes at both addresses, valid until the stream has passed.
    pub(super) unsafe fn copy(&self, to: u64, from: u64, count: usize) -> Result<()> {
        let _entered = self.driver.enter(self.device)?;
        // SAFETY: by contract.
        let status = unsafe { (self.functions.copy_async)(to, from, count, self.stream) };
        self.driver.check("copy", status)
    }

    fn with_buffers(&self, work: impl FnOnce(&mut [Buffer; 2]) -> Result<()>) -> Result<()> {
        let free = || BUFFERS.lock().unwrap_or_else(PoisonError::into_inner);
        let found = free().pop();
        let mut buffers = match found {
            Some(buffers) => buffers,
            None => {
                let _entered = self.driver.enter(self.device)?;
                let make = || Buffer::new(self.driver, self.functions);
                [make()?, make()?]
            }
        };
        // Others copy meanwhile, with buffers of their own.
        work(&mut buffers)?;
        free().push(buffers);
        Ok(())
    }
}

/// The pieces of so many bytes.
fn chunks(count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(CHUNK).map(move |start| start..count.min(start + CHUNK))
}
