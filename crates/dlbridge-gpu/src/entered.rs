//! The current device of a thread: set for a call, and restored after it.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::driver::{ContextHandle, Driver, Result, StreamContext, StreamHandle, Switch};

/// The retained contexts of CUDA devices, by device number; 0 if a context is not retained yet.
static CONTEXTS: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// A device is the current one of this thread until this is dropped.
pub(super) struct Entered<'d> {
    driver: &'d Driver,
    /// The previous capture mode, if `enter` changed it.
    capture_mode: Option<c_int>,
    // Dropped last.
    _current: Current<'d>,
}

impl Driver {
    /// Makes a device the current one of this thread, until the caller drops the returned value. Calls
    /// in between do not spoil the capture of a graph on another stream.
    pub(super) fn enter(&self, device: i32) -> Result<Entered<'_>> {
        const RELAXED: c_int = 2;
        let _current = match self.switch {
            Switch::Cuda { .. } => self.push(self.context(device)?, "enter its context")?,
            Switch::Rocm { get, set } => {
                let mut before = 0;
                // SAFETY: `before` is writable.
                self.check("name the device", unsafe { get(&mut before) })?;
                // SAFETY: the driver checks the number.
                self.check("change the device", unsafe { set(device) })?;
                Current { driver: self, before }
            }
        };
        let mut mode = RELAXED;
        // SAFETY: `mode` is writable; the driver reads the new mode and stores the old one.
        let status = unsafe { (self.exchange_capture_mode)(&mut mode) };
        // Not by the status: the driver may change the mode and still report an earlier error.
        let capture_mode = (mode != RELAXED).then_some(mode);
        let entered = Entered { driver: self, capture_mode, _current };
        self.check("change its mode of captures", status)?;
        Ok(entered)
    }

    /// Makes a context of CUDA the current one.
    fn push(&self, context: ContextHandle, what: &str) -> Result<Current<'_>> {
        if let Switch::Cuda { push, .. } = self.switch {
            // SAFETY: the context is retained, or that of a live stream.
            self.check(what, unsafe { push(context) })?;
        }
        Ok(Current { driver: self, before: 0 })
    }

    /// Returns the primary context of a device, which all libraries share, and retains it.
    pub(super) fn context(&self, device: i32) -> Result<ContextHandle> {
        let Switch::Cuda { retain, .. } = self.switch else { return Ok(0) };
        // A device without a place in `CONTEXTS` is retained each time.
        let place = usize::try_from(device).ok().and_then(|number| CONTEXTS.get(number));
        let known = place.map_or(0, |place| place.load(Ordering::Acquire));
        if known != 0 {
            return Ok(known);
        }
        let mut context = 0;
        // SAFETY: `context` is writable; the driver checks the number.
        self.check("name the context of the device", unsafe { retain(&mut context, device) })?;
        // Two threads may both retain it, which does no harm.
        if let Some(place) = place {
            place.store(context, Ordering::Release);
        }
        Ok(context)
    }

    /// Returns the device of a stream, or `meant` for the handle of a default stream.
    ///
    /// # Safety
    /// `stream` is a live stream, or the handle of a default one.
    pub(super) unsafe fn device_of(&self, stream: StreamHandle, meant: i32) -> Result<i32> {
        const PER_THREAD: StreamHandle = 2;
        if stream <= PER_THREAD {
            return Ok(meant);
        }
        let mut device = 0;
        let status = match self.stream_context {
            // SAFETY: `device` is writable; the caller guarantees that the stream lives.
            StreamContext::Rocm(of_stream) => unsafe { of_stream(stream, &mut device) },
            StreamContext::Cuda { of_stream, device: of_context } => {
                let _entered = self.enter(meant)?;
                let mut context = 0;
                // SAFETY: `context` is writable; the caller guarantees that the stream lives.
                let status = unsafe { of_stream(stream, &mut context) };
                self.check("find the device of a stream", status)?;
                let _current = self.push(context, "enter the context of a stream")?;
                // SAFETY: `device` is writable.
                unsafe { of_context(&mut device) }
            }
        };
        self.check("find the device of a stream", status)?;
        Ok(device)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.capture_mode {
            let set = || {
                let mut mode = before;
                // SAFETY: `mode` is writable; the driver reads the new mode and stores the old one.
                unsafe { (self.driver.exchange_capture_mode)(&mut mode) == 0 }
            };
            at_most_twice(set);
        }
    }
}

/// The current device or context of this thread until this is dropped.
struct Current<'d> {
    driver: &'d Driver,
    /// The number of the previous device, which only ROCm needs.
    before: i32,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        at_most_twice(|| match self.driver.switch {
            Switch::Cuda { pop, .. } => {
                let mut popped = 0;
                // SAFETY: `popped` is writable, for the context that was pushed.
                let _ = unsafe { pop(&mut popped) };
                // Not the status: the driver may pop the context and still report an earlier error.
                popped != 0
            }
            // SAFETY: `before` is the number of a device, which the driver returned.
            Switch::Rocm { set, .. } => unsafe { set(self.before) == 0 },
        });
    }
}

/// Restores the state of this thread, with a second try if the first one fails: the program's own code uses the state
/// afterwards. A second failure cannot be reported.
fn at_most_twice(mut put_back: impl FnMut() -> bool) {
    let _ = put_back() || put_back();
}
