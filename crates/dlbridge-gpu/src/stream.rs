//! Live streams: the invariant that calls of the driver with a stream rely on.

use super::driver::{Driver, Result, StreamHandle};

/// CUDA's default stream of each thread.
const PER_THREAD: StreamHandle = 2;
/// CUDA's default stream that waits for the default streams of all threads.
const LEGACY: StreamHandle = 0;

/// A stream of a device.
///
/// **Live.** The handle is that of a live stream of the device, or of a default stream, as long as a copy of this value
/// is used. Only [`Stream::of`] makes values from handles, and its caller guarantees this.
#[derive(Clone, Copy)]
pub(super) struct Stream {
    driver: &'static Driver,
    device: i32,
    handle: StreamHandle,
}

impl Stream {
    /// Returns a stream with its device, which is `meant` for the handle of a default stream.
    ///
    /// # Safety
    /// `handle` is that of a live stream, or of a default one. The stream lives as long as a copy of the returned value
    /// is used.
    pub(super) unsafe fn of(
        driver: &'static Driver,
        meant: i32,
        handle: StreamHandle,
    ) -> Result<Self> {
        // SAFETY: the caller guarantees that the stream lives.
        let device = unsafe { driver.device_of(handle, meant) }?;
        Ok(Self { driver, device, handle })
    }

    pub(super) fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// The number of the device.
    pub(super) fn device(&self) -> i32 {
        self.device
    }

    pub(super) fn handle(&self) -> StreamHandle {
        self.handle
    }

    /// Returns a stream whose work includes that of this one, on every thread: another thread may drop the tensor than
    /// the one that named its default stream.
    pub(super) fn of_any_thread(self) -> Self {
        // Live: this replaces a default stream only by another default stream.
        Self { handle: if self.handle == PER_THREAD { LEGACY } else { self.handle }, ..self }
    }
}
